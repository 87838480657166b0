//! Removes the data of deleted volumes in the background.
//!
//! Deleted volumes lie in the trash directory of their filesystem, where any process finds them again: one that dies in
//! the middle is continued by the next. Each filesystem is worked on by itself, told apart by cluster and uid; a trash is
//! looked into when a volume is deleted, and once after start as soon as its filesystem is named by a call (credentials
//! are not known before) or by the legacy secret.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use parking_lot::Mutex;
use rustix::fs::Dir;
use stowage_host::PathError;
use stowage_host::beneath::{Links, Root};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::directory::TRASH;
use super::filesystem::WekaFilesystem;
use crate::error::{Error, chain};
use crate::options::Options;
use crate::rest::Deadline;

/// How many threads remove at a time, for one filesystem.
const WORKERS: usize = 8;

/// How long one filesystem may take to be mounted and listed.
const PREPARATION: Duration = Duration::from_secs(60);

/// How long it is worked on before it is looked at again, and how much later it counts as hung.
const ROUND: Duration = Duration::from_secs(600);
const GRACE: Duration = Duration::from_secs(60);

/// How long deletions are gathered: calls come in crowds, and moving into a directory waits for what is removed from it.
const GATHERING: Duration = Duration::from_secs(1);

/// How long a failure is left alone.
const PAUSE: Duration = Duration::from_secs(60);

type Key = (String, String);

/// What became of a trash that was worked on.
enum Round {
    Emptied,
    Progress,
    Stuck,
}

/// The filesystems whose trash is being emptied.
#[derive(Default)]
pub(crate) struct Trash {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: HashMap<Key, Arc<Notify>>,
    swept: HashSet<Key>,
}

impl Driver {
    /// Looks into the trash of a filesystem that this process has not seen before.
    pub(crate) fn sweep_once(self: &Arc<Self>, filesystem: &WekaFilesystem) {
        let key = key(filesystem);
        let fresh = self.trash.state.lock().swept.insert(key);
        if fresh {
            self.empty_trash(filesystem);
        }
    }

    /// Empties the trash of a filesystem, once more if that is under way.
    pub(crate) fn empty_trash(self: &Arc<Self>, filesystem: &WekaFilesystem) {
        if self.config.keep_trash || self.stop.is_cancelled() {
            return;
        }
        let key = key(filesystem);
        let again = Arc::new(Notify::new());
        {
            let mut state = self.trash.state.lock();
            state.swept.insert(key.clone());
            if let Some(under_way) = state.under_way.get(&key) {
                under_way.notify_one();
                return;
            }
            state.under_way.insert(key.clone(), again.clone());
        }
        let (driver, filesystem) = (self.clone(), filesystem.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = driver.stop.cancelled() => {}
                () = driver.keep_emptying(&key, &filesystem, &again) => {}
            }
        });
    }

    async fn keep_emptying(&self, key: &Key, filesystem: &WekaFilesystem, again: &Notify) {
        loop {
            sleep(GATHERING).await;
            let pause = match self.empty(filesystem).await {
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
                if again.notified().now_or_never().is_none() {
                    state.under_way.remove(key);
                    return;
                }
            } else {
                // A volume that is deleted meanwhile does not shorten the pause: the filesystem may be down.
                sleep(pause).await;
            }
        }
    }

    /// Removes what is in the trash now, as much as one round allows.
    async fn empty(&self, filesystem: &WekaFilesystem) -> Result<Round, Error> {
        let deadline = Deadline::after(PREPARATION);
        let filesystem = filesystem.until(deadline);
        // Not with the options of other mounts: what happens here must not be waited for by them.
        let mounted = self
            .mounts
            .ensure(&filesystem, &Options::default(), deadline)
            .await?;
        let mounted = Arc::new(mounted);
        let thread_key = format!("trash of {}/{}", filesystem.cluster(), filesystem.name);
        // A thread that hangs keeps it: no second one begins beside it.
        let guard = Arc::new(self.locks.lock(&thread_key)?);
        let list = {
            let (mounted, guard) = (mounted.clone(), guard.clone());
            move || {
                let _guard = guard;
                entries(&mounted.root()?, Path::new(TRASH))
            }
        };
        let found = self
            .workers
            .run(&thread_key, deadline.remaining(), list)
            .await
            .map_err(Error::hung(&filesystem.name))??;
        self.metrics.trash(&filesystem.name, found.len());
        if found.is_empty() {
            return Ok(Round::Emptied);
        }
        let count = found.len();
        let removed = Arc::new(AtomicU64::new(0));
        let work = {
            let worker = Remover {
                stop: self.stop.clone(),
                until: Instant::now() + ROUND,
                removed: removed.clone(),
            };
            move || {
                let _guard = guard;
                worker.remove_all(&mounted.root()?, found)
            }
        };
        let outcome = self.workers.run(&thread_key, ROUND + GRACE, work).await;
        let removed = removed.load(Ordering::Relaxed);
        self.metrics.trash_removed(&filesystem.name, removed);
        let left = outcome.map_err(Error::hung(&filesystem.name))??;
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

    /// Looks into all trashes that the legacy secret leads to.
    pub(crate) async fn sweep_by_legacy_secret(self: Arc<Self>) {
        let deadline = Deadline::after(PREPARATION);
        let filesystems = async {
            let Some(api) = self.clusters.of_legacy_secret(deadline)? else {
                return Ok(Vec::new());
            };
            let mut filesystems = Vec::new();
            for filesystem in api.filesystems().await? {
                filesystems.push(
                    self.filesystem_of(Some(api.clone()), &filesystem.name)
                        .await?,
                );
            }
            Ok::<_, Error>(filesystems)
        };
        match filesystems.await {
            Ok(filesystems) => filesystems
                .iter()
                .for_each(|filesystem| self.sweep_once(filesystem)),
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(
                    error,
                    "Cannot empty trashes now; it is done when volumes are created or deleted."
                );
            }
        }
    }
}

impl Trash {}

fn key(filesystem: &WekaFilesystem) -> Key {
    (filesystem.cluster().to_owned(), filesystem.uid().to_owned())
}

/// The names in a directory; none if there is no directory.
fn entries(root: &Root, path: &Path) -> Result<Vec<PathBuf>, Error> {
    let directory = match root.open_directory(path, Links::Refused) {
        Ok(directory) => directory,
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for entry in Dir::read_from(&directory).map_err(PathError::at("read", path))? {
        let entry = entry.map_err(PathError::at("read", path))?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            found.push(path.join(std::ffi::OsStr::from_bytes(name)));
        }
    }
    Ok(found)
}

/// Removes trees until it is told to stop or its time is over; what is left is for the next one.
struct Remover {
    stop: CancellationToken,
    until: Instant,
    removed: Arc<AtomicU64>,
}

impl Remover {
    /// Removes all of these and returns how many are left. Volumes are taken apart by their first level, so that a large one
    /// occupies all threads.
    fn remove_all(&self, root: &Root, found: Vec<PathBuf>) -> Result<usize, Error> {
        let mut parts = Vec::new();
        for path in &found {
            // Only a directory has parts.
            parts.extend(entries(root, path).unwrap_or_default());
        }
        self.remove_in_parallel(root, parts);
        self.remove_in_parallel(root, found);
        Ok(entries(root, Path::new(TRASH))?.len())
    }

    fn remove_in_parallel(&self, root: &Root, paths: Vec<PathBuf>) {
        let queue = Mutex::new(paths);
        let next = || queue.lock().pop();
        let work = || {
            while !self.is_over()
                && let Some(path) = next()
            {
                self.remove(root, &path);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(work);
            }
        });
    }

    fn remove(&self, root: &Root, path: &Path) {
        let mut counted = 0;
        let proceed = |count: u64| {
            self.removed.fetch_add(count - counted, Ordering::Relaxed);
            counted = count;
            if self.is_over() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        if let Err(error) = root.remove_tree(path, proceed) {
            let error = chain(&error);
            tracing::debug!(path = %path.display(), error, "Cannot remove an entry of the trash for now.");
        }
    }

    fn is_over(&self) -> bool {
        self.stop.is_cancelled() || Instant::now() >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_the_trash_goes_and_nothing_else() {
        let temp = tempfile::tempdir().unwrap();
        let trash = temp.path().join(TRASH);
        for volume in ["a", "b"] {
            for directory in ["x/y", "z"] {
                std::fs::create_dir_all(trash.join(volume).join(directory)).unwrap();
                for file in 0..20 {
                    std::fs::write(
                        trash.join(volume).join(directory).join(file.to_string()),
                        "data",
                    )
                    .unwrap();
                }
            }
        }
        std::fs::create_dir(temp.path().join("csi-volumes")).unwrap();
        std::os::unix::fs::symlink(temp.path().join("csi-volumes"), trash.join("a/link")).unwrap();
        std::fs::write(trash.join("stray"), "file").unwrap();
        let root = Root::open(temp.path()).unwrap();
        let found = entries(&root, Path::new(TRASH)).unwrap();
        assert_eq!(found.len(), 3);
        let remover = |time: Duration| Remover {
            stop: CancellationToken::new(),
            until: Instant::now() + time,
            removed: Arc::default(),
        };
        let stopped = remover(ROUND);
        stopped.stop.cancel();
        for over in [stopped, remover(Duration::ZERO)] {
            assert_eq!(over.remove_all(&root, found.clone()).unwrap(), 3);
        }
        let whole = remover(ROUND);
        assert_eq!(whole.remove_all(&root, found).unwrap(), 0);
        assert!(whole.removed.load(Ordering::Relaxed) > 60);
        assert!(temp.path().join("csi-volumes").exists());
    }
}
