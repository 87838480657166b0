//! Removes the trees in a trash directory. All functions block, and hang with the filesystem.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::fs::Dir;
use stowage_host::PathError;
use stowage_host::beneath::{Links, Root};
use tokio_util::sync::CancellationToken;

use crate::driver::directory::TRASH;
use crate::error::{Error, chain};

/// How many threads remove at a time, for one filesystem.
const WORKERS: usize = 8;

/// The names in a directory; none if there is no directory.
pub(super) fn entries(root: &Root, path: &Path) -> Result<Vec<PathBuf>, Error> {
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
pub(super) struct Remover {
    pub(super) stop: CancellationToken,
    pub(super) until: Instant,
    pub(super) removed: Arc<AtomicU64>,
}

impl Remover {
    /// Removes all of these and returns how many are left. Volumes are taken apart by their first level, so that a large one
    /// occupies all threads.
    pub(super) fn remove_all(&self, root: &Root, found: Vec<PathBuf>) -> Result<usize, Error> {
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
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

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
        let stopped = remover(LONG);
        stopped.stop.cancel();
        for over in [stopped, remover(Duration::ZERO)] {
            assert_eq!(over.remove_all(&root, found.clone()).unwrap(), 3);
        }
        let whole = remover(LONG);
        assert_eq!(whole.remove_all(&root, found).unwrap(), 0);
        assert!(whole.removed.load(Ordering::Relaxed) > 60);
        assert!(temp.path().join("csi-volumes").exists());
    }
}
