//! [`FakeMounter`]: mounts that exist only in a table, for unit tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::{Bind, BindSource, FsMount, MountError, Mounter, Propagation, Shown, Unmount, View};
use crate::HostFuture;
use crate::mountinfo::{Device, MountTable};
use crate::stat::Health;
use state::{State, real_path};

mod state;

/// The number of the one disk that holds everything that is not mounted.
const ROOT: Device = Device {
    major: 254,
    minor: 0,
};

/// A machine whose mounts are entries of a list. Directories and descriptors are real, mounts are not.
pub struct FakeMounter {
    state: Mutex<State>,
}

impl Default for FakeMounter {
    fn default() -> Self {
        let fake = Self {
            state: Mutex::default(),
        };
        fake.state.lock().add(
            ROOT,
            Path::new("/"),
            Path::new("/"),
            "ext4",
            "/dev/vda",
            false,
        );
        fake
    }
}

impl FakeMounter {
    /// A machine with nothing but its root filesystem.
    pub fn new() -> Self {
        Self::default()
    }

    /// What has been done so far: `bind <target>`, `mount <target>`, `unmount <target>` ...
    pub fn calls(&self) -> Vec<String> {
        self.state.lock().calls.clone()
    }

    /// From now on the mount at `target` answers like this; a corrupted one works again after its unmount.
    pub fn set_health(&self, target: &Path, health: Health) {
        self.state.lock().health.insert(target.to_owned(), health);
    }

    /// The next `bind`, `mount`, `unmount` or `remount` is refused once with this error.
    pub fn refuse_next(&self, what: &'static str, errno: Errno) {
        self.state.lock().refusals.insert(what, errno);
    }

    fn change(
        &self,
        what: &'static str,
        target: &Path,
        change: impl FnOnce(&mut State) -> Result<(), Errno>,
    ) -> Result<(), MountError> {
        let mut state = self.state.lock();
        state.calls.push(format!("{what} {}", target.display()));
        let result = state
            .refusals
            .remove(what)
            .map_or_else(|| change(&mut state), Err);
        result.map_err(|errno| match errno {
            Errno::BUSY => MountError::Busy {
                target: target.to_owned(),
                below: Vec::new(),
            },
            errno => MountError::Refusal {
                doing: what,
                target: target.to_owned(),
                source: errno.into(),
            },
        })
    }
}

impl Mounter for FakeMounter {
    fn table(&self) -> HostFuture<'_, Result<Arc<MountTable>, MountError>> {
        let text = self.state.lock().text().unwrap_or_default();
        Box::pin(std::future::ready(
            MountTable::parse(text)
                .map(Arc::new)
                .map_err(MountError::from),
        ))
    }

    fn is_mounted<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<bool, MountError>> {
        let mounted = self
            .state
            .lock()
            .mounts
            .iter()
            .any(|mount| mount.point == target);
        Box::pin(std::future::ready(Ok(mounted)))
    }

    fn is_directory<'a>(
        &'a self,
        source: &'a BindSource,
    ) -> HostFuture<'a, Result<bool, MountError>> {
        let directory = real_path(source).map(|path| path.is_dir());
        Box::pin(std::future::ready(directory.map_err(missing_source)))
    }

    fn look<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<View, MountError>> {
        Box::pin(async move {
            Ok(View {
                table: self.table().await?,
                point: target.to_owned(),
            })
        })
    }

    fn identify<'a>(&'a self, source: &'a BindSource) -> HostFuture<'a, Result<Shown, MountError>> {
        let shown = self.state.lock().shown(source);
        Box::pin(std::future::ready(shown.map_err(missing_source)))
    }

    fn health<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Health> {
        let health = self
            .state
            .lock()
            .health
            .get(target)
            .copied()
            .unwrap_or(Health::Alive);
        Box::pin(std::future::ready(health))
    }

    fn bind<'a>(&'a self, bind: &'a Bind) -> HostFuture<'a, Result<(), MountError>> {
        let done = self.change("bind", &bind.target, |state| {
            let shown = state.shown(&bind.source)?;
            let of = state
                .mounts
                .iter()
                .find(|mount| mount.device == shown.device);
            let (kind, source) = of
                .map(|of| (of.kind.clone(), of.source.clone()))
                .unwrap_or_default();
            let export = source.split_once(":/").map_or("", |(_, export)| export);
            let below = shown.root.strip_prefix(Path::new("/").join(export));
            let root = match below {
                Ok(below) if !export.is_empty() => Path::new("/").join(below),
                _ => shown.root,
            };
            state.add(
                shown.device,
                &root,
                &bind.target,
                &kind,
                &source,
                bind.read_only,
            );
            Ok(())
        });
        Box::pin(std::future::ready(done))
    }

    fn mount<'a>(&'a self, mount: &'a FsMount) -> HostFuture<'a, Result<(), MountError>> {
        let done = self.change("mount", &mount.target, |state| {
            let source = mount.source.to_string_lossy();
            let minor = u32::try_from(state.next_id).unwrap_or_default();
            let known = state
                .mounts
                .iter()
                .find(|known| known.source == source)
                .map(|known| known.device);
            let device = known.unwrap_or(Device { major: 0, minor });
            state.add(
                device,
                Path::new("/"),
                &mount.target,
                &mount.kind,
                &source,
                mount.read_only(),
            );
            Ok(())
        });
        Box::pin(std::future::ready(done))
    }

    fn mount_with_secret<'a>(
        &'a self,
        mount: &'a FsMount,
        _: &'a str,
    ) -> HostFuture<'a, Result<(), MountError>> {
        self.mount(mount)
    }

    fn make_read_only<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<(), MountError>> {
        let done = self.change("remount", target, |state| {
            let mount = state
                .mounts
                .iter_mut()
                .rfind(|mount| mount.point == target)
                .ok_or(Errno::INVAL)?;
            mount.read_only = true;
            Ok(())
        });
        Box::pin(std::future::ready(done))
    }

    fn set_propagation<'a>(
        &'a self,
        target: &'a Path,
        propagation: Propagation,
    ) -> HostFuture<'a, Result<(), MountError>> {
        let what = match propagation {
            Propagation::Private => "private",
            Propagation::Shared => "shared",
            Propagation::Slave => "slave",
        };
        Box::pin(std::future::ready(self.change(what, target, |_| Ok(()))))
    }

    fn unmount<'a>(
        &'a self,
        target: &'a Path,
        how: Unmount,
    ) -> HostFuture<'a, Result<(), MountError>> {
        let what = match how {
            Unmount::Normal => "unmount",
            Unmount::Force => "force-unmount",
            Unmount::Lazy => "lazy-unmount",
        };
        let done = self.change(what, target, |state| {
            let last = state
                .mounts
                .iter()
                .rposition(|mount| mount.point == target)
                .ok_or(Errno::INVAL)?;
            state.mounts.remove(last);
            state.health.remove(target);
            Ok(())
        });
        Box::pin(std::future::ready(done))
    }
}

fn missing_source(errno: Errno) -> MountError {
    MountError::Refusal {
        doing: "look up",
        target: PathBuf::from("the source"),
        source: errno.into(),
    }
}
