//! A disk, reached by one session or by several, which are made again when they are lost.

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

    /// Does something in the session, or in a new one if it is lost, without waiting for either.
    fn try_once<T>(&self, work: &impl AsyncFn(&Session) -> Result<T, Failure>) -> io::Result<T> {
        self.runtime.block_on(async {
            for _ in 0..2 {
                let Some(session) = self.session.lock().clone() else {
                    break;
                };
                match work(&session).await {
                    Ok(done) => return Ok(done),
                    Err(Failure::Check(sense)) => {
                        return Err(io::Error::other(Failure::Check(sense)));
                    }
                    Err(Failure::Lost(_)) => self.recover(&session).await,
                }
            }
            Err(io::ErrorKind::NotConnected.into())
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

/// A disk, reached by one path or by several.
pub struct Disk {
    paths: Mutex<Vec<Path>>,
    size: AtomicU64,
}

/// A way to a disk.
#[derive(Clone)]
pub struct Path {
    link: Arc<Link>,
    lun: u64,
}

impl Path {
    /// Whether it leads to the disk right now.
    pub fn works(&self) -> bool {
        let size = async |session: &Session| session.size(self.lun).await;
        self.link.try_once(&size).is_ok()
    }
}

impl Disk {
    /// The disk with a number in a session.
    pub fn new(link: Arc<Link>, lun: u64) -> io::Result<Self> {
        let disk = Self::by(vec![Path { link, lun }]);
        disk.rescan()?;
        Ok(disk)
    }

    /// A disk that several paths lead to.
    pub fn by(paths: Vec<Path>) -> Self {
        Self {
            paths: Mutex::new(paths),
            size: AtomicU64::new(0),
        }
    }

    /// The paths to it.
    pub fn paths(&self) -> Vec<Path> {
        self.paths.lock().clone()
    }

    /// Other paths lead to it from now on.
    pub fn set_paths(&self, paths: Vec<Path>) {
        *self.paths.lock() = paths;
    }

    /// Does something by the first path that leads to the disk. One that does not is tried last from then on.
    fn call<T>(&self, work: &impl AsyncFn(&Session, u64) -> Result<T, Failure>) -> io::Result<T> {
        let mut last = io::Error::from(io::ErrorKind::NotConnected);
        for path in self.paths() {
            let of_path = async |session: &Session| work(session, path.lun).await;
            match path.link.call(&of_path) {
                Err(error) if error.get_ref().is_none_or(|it| !it.is::<Failure>()) => last = error,
                done => return done,
            }
            let mut paths = self.paths.lock();
            if let Some(at) = paths
                .iter()
                .position(|it| Arc::ptr_eq(&it.link, &path.link))
            {
                let failed = paths.remove(at);
                paths.push(failed);
            }
        }
        Err(last)
    }

    /// Asks how large it is now.
    pub fn rescan(&self) -> io::Result<()> {
        let size = self.call(&async |session, lun| session.size(lun).await)?;
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
        self.call(&async |session, lun| session.read(lun, offset, length).await)
    }

    /// Writes whole blocks.
    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call(&async |session, lun| session.write(lun, offset, data).await)
    }

    /// Makes durable what was written.
    pub fn synchronize(&self) -> io::Result<()> {
        self.call(&async |session, lun| session.synchronize(lun).await)
    }
}
