//! Binds, mounts and unmounts: the seam [`Mounter`], and the forms of them that can be called twice.
//!
//! What is bound is an open descriptor where the caller has one: between a check of a path and its use somebody may
//! have put a symbolic link there. Filesystems are mounted by `mount(8)`, because many bring a helper of their own.
//! Every call has a time limit, and a mount that hangs holds up nobody but those who ask for it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::HostFuture;
use super::exec::ExecError;
use super::mountinfo::{Device, Mount, MountInfoError, MountTable};
use super::stat::Health;
use super::workers::Stuck;

mod ensure;
mod kernel;
mod mounter;
mod secret;

#[cfg(test)]
mod fake;

pub use ensure::{ensure_bind, ensure_mounted, ensure_unmounted, remove_mount_point};
#[cfg(test)]
pub use fake::FakeMounter;
pub use mounter::HostMounter;

/// Tells `mount(8)` to take source and target as they are written.
const AS_WRITTEN: &str = "--no-canonicalize";

/// Changes and shows the machine's mounts. The real one is [`HostMounter`]; unit tests use `FakeMounter`.
///
/// These are the bare operations: each call makes one more mount or removes one. What a driver wants is mostly
/// [`ensure_bind`], [`ensure_mounted`] and [`ensure_unmounted`].
pub trait Mounter: Send + Sync {
    /// All mounts as they are now.
    fn table(&self) -> HostFuture<'_, Result<Arc<MountTable>, MountError>>;

    /// Whether something is mounted at `target`. What is mounted there is not touched, and however many other mounts
    /// there are, the answer costs the same (from Linux 5.6).
    fn is_mounted<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<bool, MountError>>;

    /// All mounts, and the name by which the kernel knows `target`. What is mounted there is not touched.
    fn look<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<View, MountError>>;

    /// Whether the source is a directory: only a directory can show it.
    fn is_directory<'a>(
        &'a self,
        source: &'a BindSource,
    ) -> HostFuture<'a, Result<bool, MountError>>;

    /// What a bind of this source would show.
    fn identify<'a>(&'a self, source: &'a BindSource) -> HostFuture<'a, Result<Shown, MountError>>;

    /// Whether the mount at `target` answers.
    fn health<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Health>;

    /// Shows the source at the target as well. What is mounted below the source is not taken along.
    fn bind<'a>(&'a self, bind: &'a Bind) -> HostFuture<'a, Result<(), MountError>>;

    /// Mounts a filesystem by `mount(8)`.
    fn mount<'a>(&'a self, mount: &'a FsMount) -> HostFuture<'a, Result<(), MountError>>;

    /// Mounts a filesystem by `mount(8)` with options that nobody may see, separated by commas. They are on no command
    /// line but that of the filesystem's own helper, if it has one, and in no error.
    fn mount_with_secret<'a>(
        &'a self,
        mount: &'a FsMount,
        secret_options: &'a str,
    ) -> HostFuture<'a, Result<(), MountError>>;

    /// Makes the mount at `target` read-only, and no other mount of the same filesystem.
    fn make_read_only<'a>(&'a self, target: &'a Path) -> HostFuture<'a, Result<(), MountError>>;

    /// Decides which mounts made below the mount at `target` others get to see.
    fn set_propagation<'a>(
        &'a self,
        target: &'a Path,
        propagation: Propagation,
    ) -> HostFuture<'a, Result<(), MountError>>;

    /// Removes the topmost mount at `target`.
    fn unmount<'a>(
        &'a self,
        target: &'a Path,
        how: Unmount,
    ) -> HostFuture<'a, Result<(), MountError>>;
}

/// What to bind.
#[derive(Debug, Clone)]
pub enum BindSource {
    /// What is at this path when it is bound; symbolic links are followed.
    Path(PathBuf),
    /// What was opened, whatever is at its path by now.
    Descriptor(Arc<OwnedFd>),
}

impl From<OwnedFd> for BindSource {
    fn from(descriptor: OwnedFd) -> Self {
        Self::Descriptor(Arc::new(descriptor))
    }
}

/// A bind to make.
#[derive(Debug, Clone)]
pub struct Bind {
    /// What to show.
    pub source: BindSource,
    /// Where: a directory for a directory, a file for anything else. A symbolic link is refused.
    pub target: PathBuf,
    /// Whether nothing may be written through it.
    pub read_only: bool,
}

/// A filesystem to mount.
#[derive(Debug, Clone)]
pub struct FsMount {
    /// Its type: `ext4`, `nfs`, `wekafs` ...
    pub kind: String,
    /// The disk, the server and export, or whatever the type wants.
    pub source: OsString,
    /// The directory to mount it on.
    pub target: PathBuf,
    /// Options as `mount -o` takes them. Never a secret: the whole machine can read them (but see
    /// [`Mounter::mount_with_secret`]).
    pub options: Vec<String>,
    /// How long it may take. One that cannot be killed is waited for: a second one beside it would help nobody.
    pub timeout: Duration,
}

impl FsMount {
    /// Whether the source is a name and not the path of anything. `mount(8)` takes a name like `dev` or `tmp` for a path
    /// where it finds such a directory.
    fn names_its_source(&self) -> bool {
        !self.source.as_encoded_bytes().starts_with(b"/")
    }

    /// Whether the options ask for a mount that cannot be written; as for `mount(8)`, the last word counts.
    pub fn read_only(&self) -> bool {
        let mut words = self.options.iter().flat_map(|option| option.split(','));
        words.rfind(|word| matches!(*word, "ro" | "rw")) == Some("ro")
    }
}

/// Who sees what is mounted below a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Nobody else.
    Private,
    /// Its copies, and it sees what is mounted below them.
    Shared,
    /// Nobody, but it sees what is mounted below what it was copied from.
    Slave,
}

/// How to unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unmount {
    /// Only if nobody uses it and everything is written.
    Normal,
    /// The same, but requests that wait for a dead server are given up (network filesystems and FUSE).
    Force,
    /// Out of sight at once; the filesystem itself goes when the last user closes its last file. Whoever unmounts
    /// like this must not touch the device afterwards: it may be in use for a long time.
    Lazy,
}

/// The mounts as seen from one place.
#[derive(Debug, Clone)]
pub struct View {
    /// All mounts.
    pub table: Arc<MountTable>,
    /// The place, its parent directories resolved.
    pub point: PathBuf,
}

impl View {
    /// The topmost mount at the place.
    pub fn mount(&self) -> Option<Mount<'_>> {
        self.table.at(&self.point)
    }

    /// Mounts below the place, which keep it from being unmounted.
    pub fn below(&self) -> Vec<PathBuf> {
        let below = self.table.under(&self.point).map(|mount| mount.point());
        below
            .filter(|point| *point != self.point)
            .map(Path::to_owned)
            .collect()
    }
}

/// What a mount shows: something in a filesystem. Equal for all binds of the same thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The filesystem.
    pub device: Device,
    /// What of it.
    pub root: PathBuf,
}

/// Why a mount is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel's table is not available.
    #[error(transparent)]
    Table(#[from] MountInfoError),
    /// The kernel does not come back.
    #[error("cannot {doing} {}: the kernel does not answer", target.display())]
    Hung {
        /// What was being done.
        doing: &'static str,
        /// To what.
        target: PathBuf,
        /// For how long.
        #[source]
        source: Stuck,
    },
    /// The kernel refuses.
    #[error("cannot {doing} {}", target.display())]
    Refusal {
        /// What was being done.
        doing: &'static str,
        /// To what.
        target: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// It is in use.
    #[error("{} is in use{}", target.display(), mounted_below(below))]
    Busy {
        /// The mount.
        target: PathBuf,
        /// Mounts below it, if these are the reason.
        below: Vec<PathBuf>,
    },
    /// Something else is mounted there.
    #[error("{} already holds another mount: {holder}", target.display())]
    Occupied {
        /// The place.
        target: PathBuf,
        /// What is there.
        holder: String,
    },
    /// There is something at the target that cannot be mounted on.
    #[error("{} is not a {wanted}", target.display())]
    MountPoint {
        /// The place.
        target: PathBuf,
        /// What has to be there.
        wanted: &'static str,
    },
    /// The source cannot be bound: it was removed, or belongs to mounts this process does not see.
    #[error("{} is not part of any mount that this process sees", source_path.display())]
    Unidentified {
        /// The source as the kernel names it.
        source_path: PathBuf,
    },
    /// `mount(8)` did not do it.
    #[error("cannot mount {}", target.display())]
    Helper {
        /// Where it was to be mounted.
        target: PathBuf,
        /// What the tool said.
        #[source]
        source: ExecError,
    },
}

fn mounted_below(below: &[PathBuf]) -> String {
    match below {
        [] => String::new(),
        [first, ..] => format!(
            ": {} mounts below it, the first at {}",
            below.len(),
            first.display()
        ),
    }
}

#[cfg(test)]
mod tests;
