//! [`HostMounter`]: the mounts of this machine.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use super::{
    AS_WRITTEN, Bind, BindSource, FsMount, MountError, Mounter, Propagation, Shown, Unmount, View,
    kernel, secret,
};
use crate::exec::{Exec, Invocation, Output, tools};
use crate::mountinfo::{MountTable, Reader};
use crate::stat::{Health, Stats};
use crate::workers::{SharedCalls, Stuck};
use crate::{Calls, HostFuture, blocking};
use kernel::Opened;

/// How long the kernel may take for one call.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(30);

/// How many calls may be under way at a time; a hung one counts until it comes back.
const MOST_CALLS: usize = 512;

/// How often and how long apart a busy mount is tried again: a probe that opened it for a moment is no reason to
/// fail, and a process that uses it will not go away by waiting.
const BUSY_ATTEMPTS: usize = 5;
const BUSY_PAUSE: Duration = Duration::from_millis(60);

/// What is under way; two equal calls for one place are one call.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Call {
    Unmount(PathBuf, Unmount),
    /// Not like any other: two binds to one place may have different sources.
    Single(u64),
}

/// The machine's mounts by system calls, and by `mount(8)` for filesystems.
pub struct HostMounter {
    exec: Arc<dyn Exec>,
    stats: Arc<Stats>,
    reader: Arc<Reader>,
    parents: SharedCalls<PathBuf, Result<PathBuf, Errno>>,
    targets: SharedCalls<PathBuf, Result<Option<bool>, Errno>>,
    sources: SharedCalls<u64, Result<Opened, Errno>>,
    calls: SharedCalls<Call, Result<(), Errno>>,
    next_call: AtomicU64,
    patience: Duration,
    kernel: Calls,
}

impl HostMounter {
    /// Mounts filesystems by `exec`, and asks `stats` whether a mount is alive.
    pub fn new(exec: Arc<dyn Exec>, stats: Arc<Stats>) -> Self {
        Self {
            exec,
            stats,
            reader: Arc::default(),
            parents: SharedCalls::new(MOST_CALLS),
            targets: SharedCalls::new(MOST_CALLS),
            sources: SharedCalls::new(MOST_CALLS),
            calls: SharedCalls::new(MOST_CALLS),
            next_call: AtomicU64::new(0),
            patience: DEFAULT_PATIENCE,
            kernel: Calls::Best,
        }
    }

    /// Gives each kernel call this much time.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Restricts the kernel calls that are made.
    pub fn calls(mut self, calls: Calls) -> Self {
        self.kernel = calls;
        self
    }

    async fn make(
        &self,
        doing: &'static str,
        target: &Path,
        call: impl FnOnce() -> Result<(), Errno> + Send + 'static,
    ) -> Result<(), MountError> {
        let key = Call::Single(self.unique());
        settle(
            doing,
            target,
            self.calls.run(key, self.patience, call).await,
        )
    }

    fn unique(&self) -> u64 {
        self.next_call.fetch_add(1, Ordering::Relaxed)
    }

    /// The target with its parent directories resolved, as the table of mounts has it; itself if there is no parent.
    async fn resolve(&self, target: &Path) -> Result<PathBuf, MountError> {
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Ok(target.to_owned());
        };
        let asked = parent.to_owned();
        let call = move || std::fs::canonicalize(&asked).map_err(|error| kernel::errno(&error));
        match settle(
            "look up",
            target,
            self.parents
                .run(parent.to_owned(), self.patience, call)
                .await,
        ) {
            Ok(parent) => Ok(parent.join(name)),
            Err(MountError::Refusal { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(target.to_owned())
            }
            Err(error) => Err(error),
        }
    }

    async fn examine(&self, source: &BindSource) -> Result<Opened, MountError> {
        let asked = source.clone();
        let examine = move || match asked {
            BindSource::Path(path) => kernel::examine(kernel::open_path(&path)?.as_fd()),
            BindSource::Descriptor(descriptor) => kernel::examine(descriptor.as_fd()),
        };
        let answer = self
            .sources
            .run(self.unique(), self.patience, examine)
            .await;
        settle("look up", &name_of(source), answer)
    }

    async fn read_table(&self) -> Result<Arc<MountTable>, MountError> {
        let reader = Arc::clone(&self.reader);
        Ok(blocking(move || reader.table()).await?)
    }
}

impl Mounter for HostMounter {
    fn table(&self) -> HostFuture<'_, Result<Arc<MountTable>, MountError>> {
        Box::pin(self.read_table())
    }

    fn is_mounted<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<bool, MountError>> {
        Box::pin(async move {
            let (asked, calls) = (target.to_owned(), self.kernel);
            let ask = move || kernel::is_mounted(&asked, calls);
            let answer = self
                .targets
                .run(target.to_owned(), self.patience, ask)
                .await;
            match settle("look up", target, answer)? {
                Some(mounted) => Ok(mounted),
                None => Ok(self.look(target).await?.mount().is_some()),
            }
        })
    }

    fn is_directory<'a>(
        &'a self,
        source: &'a BindSource,
    ) -> HostFuture<'a, Result<bool, MountError>> {
        Box::pin(async move { Ok(self.examine(source).await?.directory) })
    }

    fn look<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<View, MountError>> {
        Box::pin(async move {
            let table = self.read_table().await?;
            // A mount point is in the table by its real name, so a hit needs no look at the directories above.
            if table.at(target).is_some() {
                return Ok(View {
                    table,
                    point: target.to_owned(),
                });
            }
            Ok(View {
                table,
                point: self.resolve(target).await?,
            })
        })
    }

    fn identify<'a>(&'a self, source: &'a BindSource) -> HostFuture<'a, Result<Shown, MountError>> {
        Box::pin(async move {
            let opened = self.examine(source).await?;
            let table = self.read_table().await?;
            let unidentified = || MountError::Unidentified {
                source_path: opened.path.clone(),
            };
            let mount = table.with_id(opened.mount_id).ok_or_else(unidentified)?;
            let below = opened
                .path
                .strip_prefix(mount.point())
                .map_err(|_| unidentified())?;
            // `join` with an empty path would leave a trailing slash.
            let root = if below.as_os_str().is_empty() {
                mount.shown().into_owned()
            } else {
                mount.shown().join(below)
            };
            Ok(Shown {
                device: mount.device(),
                root,
            })
        })
    }

    fn health<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Health> {
        Box::pin(self.stats.health(target))
    }

    fn bind<'a>(&'a self, bind: &'a Bind) -> HostFuture<'a, Result<(), MountError>> {
        let Bind {
            source,
            target,
            read_only,
        } = bind.clone();
        let calls = self.kernel;
        let call = move || match source {
            BindSource::Path(path) => {
                kernel::bind(kernel::open_path(&path)?.as_fd(), &target, read_only, calls)
            }
            BindSource::Descriptor(descriptor) => {
                kernel::bind(descriptor.as_fd(), &target, read_only, calls)
            }
        };
        Box::pin(self.make("bind", &bind.target, call))
    }

    fn mount<'a>(&'a self, mount: &'a FsMount) -> HostFuture<'a, Result<(), MountError>> {
        let mut invocation = Invocation::new(tools::MOUNT)
            .args(["-t", &mount.kind])
            .timeout(mount.timeout)
            .until_gone();
        if mount.names_its_source() {
            invocation = invocation.arg(AS_WRITTEN);
        }
        if !mount.options.is_empty() {
            invocation = invocation.arg("-o").arg(mount.options.join(","));
        }
        let invocation = invocation.arg("--").arg(&mount.source).arg(&mount.target);
        Box::pin(async move {
            let done = self.exec.run(invocation).await.and_then(Output::checked);
            done.map(|_| ()).map_err(|source| MountError::Helper {
                target: mount.target.clone(),
                source,
            })
        })
    }

    fn mount_with_secret<'a>(
        &'a self,
        mount: &'a FsMount,
        secret_options: &'a str,
    ) -> HostFuture<'a, Result<(), MountError>> {
        Box::pin(secret::mount(&*self.exec, mount, secret_options))
    }

    fn make_read_only<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<(), MountError>> {
        let (place, calls) = (target.to_owned(), self.kernel);
        Box::pin(self.make("make read-only", target, move || {
            kernel::make_read_only(&place, calls)
        }))
    }

    fn set_propagation<'a>(
        &'a self,
        target: &'a Path,
        propagation: Propagation,
    ) -> HostFuture<'a, Result<(), MountError>> {
        let place = target.to_owned();
        Box::pin(self.make("change the propagation of", target, move || {
            kernel::set_propagation(&place, propagation)
        }))
    }

    fn unmount<'a>(
        &'a self,
        target: &'a Path,
        how: Unmount,
    ) -> HostFuture<'a, Result<(), MountError>> {
        Box::pin(async move {
            for _ in 0..BUSY_ATTEMPTS {
                let place = target.to_owned();
                let key = Call::Unmount(place.clone(), how);
                let answer = self
                    .calls
                    .run(key, self.patience, move || kernel::unmount(&place, how))
                    .await;
                match answer {
                    Ok(Err(Errno::BUSY)) => tokio::time::sleep(BUSY_PAUSE).await,
                    answer => return settle("unmount", target, answer),
                }
            }
            Err(MountError::Busy {
                target: target.to_owned(),
                below: self.look(target).await?.below(),
            })
        })
    }
}

fn settle<T>(
    doing: &'static str,
    target: &Path,
    answer: Result<Result<T, Errno>, Stuck>,
) -> Result<T, MountError> {
    match answer {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(errno)) => Err(refusal(doing, target, errno)),
        Err(source) => Err(MountError::Hung {
            doing,
            target: target.to_owned(),
            source,
        }),
    }
}

fn refusal(doing: &'static str, target: &Path, errno: Errno) -> MountError {
    MountError::Refusal {
        doing,
        target: target.to_owned(),
        source: errno.into(),
    }
}

fn name_of(source: &BindSource) -> PathBuf {
    match source {
        BindSource::Path(path) => path.clone(),
        BindSource::Descriptor(_) => PathBuf::from("an open descriptor"),
    }
}
