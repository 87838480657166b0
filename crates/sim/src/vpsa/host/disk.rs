//! A disk in a session, found again when the session is lost.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::iscsi::initiator::{Failure, Login, LoginError, Session};

/// How long apart it is tried to log in again.
const PAUSE: Duration = Duration::from_millis(100);

/// A session that is made again when it is lost, for as long as the node is patient. It has no `Debug`: it holds a secret.
pub struct Link {
    login: Login,
    patience: Duration,
    runtime: Handle,
    session: Mutex<Option<Arc<Session>>>,
}

impl Link {
    /// Logs in.
    pub fn log_in(login: Login, patience: Duration, runtime: Handle) -> Result<Self, LoginError> {
        let session = runtime.block_on(Session::log_in(&login))?;
        Ok(Self {
            login,
            patience,
            runtime,
            session: Mutex::new(Some(Arc::new(session))),
        })
    }

    /// Logs out; what uses the session meanwhile ends with an error.
    pub fn log_out(&self) {
        if let Some(session) = self.session.lock().take() {
            // An array that is away is left without a word.
            let _ = self.runtime.block_on(session.log_out());
        }
    }

    /// Does something in the session. Waits for one if it is lost; blocks.
    pub fn call<T>(&self, work: &impl AsyncFn(&Session) -> Result<T, Failure>) -> io::Result<T> {
        let deadline = Instant::now() + self.patience;
        self.runtime.block_on(async {
            loop {
                let Some(session) = self.session.lock().clone() else {
                    return Err(io::ErrorKind::NotConnected.into());
                };
                match work(&session).await {
                    Ok(done) => return Ok(done),
                    Err(Failure::Check(sense)) => {
                        return Err(io::Error::other(Failure::Check(sense)));
                    }
                    Err(Failure::Lost(error)) if Instant::now() >= deadline => return Err(error),
                    Err(Failure::Lost(_)) => self.recover(&session).await,
                }
            }
        })
    }

    /// One attempt at a new session in place of a lost one, unless somebody else has made one.
    async fn recover(&self, lost: &Arc<Session>) {
        let new = Session::log_in(&self.login).await;
        if self.replace(lost, new.ok()) {
            sleep(PAUSE).await;
        }
    }

    /// Whether the lost session is still what there is.
    fn replace(&self, lost: &Arc<Session>, new: Option<Session>) -> bool {
        let mut session = self.session.lock();
        let is_lost = session.as_ref().is_some_and(|it| Arc::ptr_eq(it, lost));
        match new {
            Some(new) if is_lost => {
                *session = Some(Arc::new(new));
                false
            }
            _ => is_lost,
        }
    }
}

/// A disk.
pub struct Disk {
    link: Arc<Link>,
    lun: u64,
    size: AtomicU64,
}

impl Disk {
    /// The disk with a number.
    pub fn new(link: Arc<Link>, lun: u64) -> io::Result<Self> {
        let disk = Self {
            link,
            lun,
            size: AtomicU64::new(0),
        };
        disk.rescan()?;
        Ok(disk)
    }

    /// Asks how large it is now.
    pub fn rescan(&self) -> io::Result<()> {
        let size = self
            .link
            .call(&async |session| session.size(self.lun).await)?;
        self.size.store(size, Ordering::Relaxed);
        Ok(())
    }

    /// How large it was when it was last asked.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Reads whole blocks; as many as there are.
    pub fn read(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let length = length.min(self.size().saturating_sub(offset));
        self.link
            .call(&async |session| session.read(self.lun, offset, length).await)
    }

    /// Writes whole blocks.
    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.link
            .call(&async |session| session.write(self.lun, offset, data).await)
    }

    /// Makes durable what was written.
    pub fn synchronize(&self) -> io::Result<()> {
        self.link
            .call(&async |session| session.synchronize(self.lun).await)
    }
}
