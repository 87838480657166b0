//! Removes the data of deleted volumes in the background.
//!
//! Deleted volumes lie in the trash directory of their filesystem, where any process finds them again: one that dies in
//! the middle is continued by the next. Each filesystem is worked on by itself, told apart by cluster, organization and
//! uid, with the credentials of the newest call that named it: those of the first may be void by now. A trash is looked
//! into when a volume is deleted, and once after start as soon as its filesystem is named by a call (credentials
//! are not known before). `start`: or found by the legacy secret.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use parking_lot::Mutex;
use stowage_host::beneath::Root;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};

use super::directory::TRASH;
use super::filesystem::WekaFilesystem;
use super::mounts::Mounted;
use super::{Driver, Guard};
use crate::error::{Error, chain};
use crate::options::Options;
use crate::rest::Deadline;
use remove::{Remover, entries};

mod remove;
mod start;

/// How long one filesystem may take to be mounted and listed.
const PREPARATION: Duration = Duration::from_secs(60);

/// How long it is worked on before it is looked at again, and how much later it counts as hung.
const ROUND: Duration = Duration::from_secs(600);
const GRACE: Duration = Duration::from_secs(60);

/// How long deletions are gathered: calls come in crowds, and moving into a directory waits for what is removed from it.
const GATHERING: Duration = Duration::from_secs(1);

/// How long a failure is left alone.
const PAUSE: Duration = Duration::from_secs(60);

/// Cluster, organization and uid.
type Key = [String; 3];

/// What became of a trash that was worked on.
enum Round {
    Emptied,
    Progress,
    Stuck,
}

/// The filesystems whose trash is being emptied.
pub(crate) struct Trash {
    state: Mutex<State>,
    /// Turns of those that no call has named.
    unnamed: Semaphore,
}

impl Default for Trash {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            unnamed: Semaphore::new(start::AT_A_TIME),
        }
    }
}

#[derive(Default)]
struct State {
    under_way: HashMap<Key, Arc<Emptying>>,
    swept: HashSet<Key>,
}

/// A trash that is being emptied.
struct Emptying {
    /// As the newest call sees it.
    filesystem: Mutex<WekaFilesystem>,
    /// Something more was deleted.
    again: Notify,
    /// The credentials are others.
    renewed: Notify,
    /// A call has named the filesystem, and not only a list.
    is_named: AtomicBool,
}

impl Emptying {
    fn new(filesystem: &WekaFilesystem, is_named: bool) -> Self {
        Self {
            filesystem: Mutex::new(filesystem.clone()),
            again: Notify::new(),
            renewed: Notify::new(),
            is_named: AtomicBool::new(is_named),
        }
    }

    /// Goes on with these credentials.
    fn renew(&self, filesystem: &WekaFilesystem) {
        self.is_named.store(true, Ordering::Relaxed);
        let before = std::mem::replace(&mut *self.filesystem.lock(), filesystem.clone());
        if before.fingerprint() != filesystem.fingerprint() {
            self.renewed.notify_one();
        }
    }
}

/// The trash of a mounted filesystem, and the right to work on it.
#[derive(Clone)]
struct OpenTrash {
    filesystem: String,
    /// What its threads are counted under.
    place: String,
    mounted: Arc<Mounted>,
    guard: Guard,
}

impl Driver {
    /// Looks into the trash of a filesystem that this process has not seen before.
    pub(crate) fn sweep_once(self: &Arc<Self>, filesystem: &WekaFilesystem) {
        let key = key(filesystem);
        {
            let mut state = self.trash.state.lock();
            if !state.swept.insert(key.clone()) {
                if let Some(emptying) = state.under_way.get(&key) {
                    emptying.renew(filesystem);
                }
                return;
            }
        }
        self.empty_trash(filesystem);
    }

    /// Empties the trash of a filesystem, once more if that is under way.
    pub(crate) fn empty_trash(self: &Arc<Self>, filesystem: &WekaFilesystem) {
        self.begin_emptying(filesystem, true);
    }

    fn begin_emptying(self: &Arc<Self>, filesystem: &WekaFilesystem, is_named: bool) {
        if self.config.keep_trash || self.stop.is_cancelled() {
            return;
        }
        let key = key(filesystem);
        let emptying = Arc::new(Emptying::new(filesystem, is_named));
        {
            let mut state = self.trash.state.lock();
            state.swept.insert(key.clone());
            if let Some(under_way) = state.under_way.get(&key) {
                under_way.renew(filesystem);
                under_way.again.notify_one();
                return;
            }
            state.under_way.insert(key.clone(), emptying.clone());
        }
        let driver = self.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = driver.stop.cancelled() => {}
                () = driver.keep_emptying(&key, &emptying) => {}
            }
        });
    }

    async fn keep_emptying(&self, key: &Key, emptying: &Emptying) {
        loop {
            sleep(GATHERING).await;
            let filesystem = emptying.filesystem.lock().clone();
            let emptied = if emptying.is_named.load(Ordering::Relaxed) {
                self.empty(&filesystem).await
            } else {
                self.empty_unnamed(&filesystem).await
            };
            let pause = match emptied {
                Ok(Round::Emptied) => Duration::ZERO,
                // A large trash takes many rounds.
                Ok(Round::Progress) => continue,
                Ok(Round::Stuck) => PAUSE,
                Err(error) => {
                    self.metrics.trash_failure(&filesystem.name);
                    let error = chain(&error);
                    tracing::warn!(
                        filesystem = filesystem.name,
                        error,
                        "Cannot empty the trash; trying again later."
                    );
                    PAUSE
                }
            };
            if pause.is_zero() {
                let mut state = self.trash.state.lock();
                // Whoever asks from now on begins anew; whoever asked before is served by another round.
                if emptying.again.notified().now_or_never().is_none() {
                    state.under_way.remove(key);
                    return;
                }
            } else {
                // A volume that is deleted meanwhile does not shorten the pause, as the filesystem may be down; other
                // credentials do.
                let _ = timeout(pause, emptying.renewed.notified()).await;
            }
        }
    }

    /// Removes what is in the trash now, as much as one round allows.
    async fn empty(&self, filesystem: &WekaFilesystem) -> Result<Round, Error> {
        let deadline = Deadline::after(PREPARATION);
        let trash = self.open_trash(filesystem, deadline).await?;
        let list = |root: &Root| entries(root, Path::new(TRASH));
        let found = self.work_on(&trash, deadline.remaining(), list).await?;
        let count = found.len();
        self.metrics.trash(&filesystem.name, count);
        if found.is_empty() {
            return Ok(Round::Emptied);
        }
        let removed = Arc::new(AtomicU64::new(0));
        let worker = Remover {
            stop: self.stop.clone(),
            until: Instant::now() + ROUND,
            removed: removed.clone(),
        };
        let remove = move |root: &Root| worker.remove_all(root, found);
        let left = self.work_on(&trash, ROUND + GRACE, remove).await;
        let removed = removed.load(Ordering::Relaxed);
        self.metrics.trash_removed(&filesystem.name, removed);
        let left = left?;
        self.metrics.trash(&filesystem.name, left);
        tracing::info!(
            filesystem = filesystem.name,
            volumes = count - left,
            left,
            "Removed the data of deleted volumes."
        );
        Ok(match (left, removed) {
            (0, _) => Round::Emptied,
            (_, 0) => Round::Stuck,
            _ => Round::Progress,
        })
    }

    async fn open_trash(
        &self,
        filesystem: &WekaFilesystem,
        deadline: Deadline,
    ) -> Result<OpenTrash, Error> {
        let filesystem = filesystem.until(deadline);
        // Not with the options of other mounts: what happens here must not be waited for by them.
        let options = Options::default();
        let mounted = self.mounts.ensure(&filesystem, &options, deadline).await?;
        let place = format!("trash of {}", key(&filesystem).join("/"));
        Ok(OpenTrash {
            guard: Arc::new(self.locks.lock(&place)?),
            filesystem: filesystem.name,
            place,
            mounted: Arc::new(mounted),
        })
    }

    /// Does something in a trash, on a thread that can be left. One that hangs keeps the trash: no second one starts
    /// beside it.
    async fn work_on<T, W>(
        &self,
        trash: &OpenTrash,
        patience: Duration,
        work: W,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        W: FnOnce(&Root) -> Result<T, Error> + Send + 'static,
    {
        let OpenTrash { mounted, guard, .. } = trash.clone();
        let work = move || {
            let _guard = guard;
            work(&mounted.root()?)
        };
        let done = self.workers.run(&trash.place, patience, work).await;
        done.map_err(Error::hung(&trash.filesystem))?
    }
}

fn key(filesystem: &WekaFilesystem) -> Key {
    [
        filesystem.cluster(),
        filesystem.organization(),
        filesystem.uid(),
    ]
    .map(str::to_owned)
}
