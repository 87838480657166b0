//! Mounts by their end: what has to be there afterwards, whatever was there before.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::io::Errno;

use super::{Bind, FsMount, MountError, Mounter, Unmount};
use crate::mountinfo::{Device, Mount};
use crate::stat::{Health, is_corruption};
use crate::{Outcome, blocking};

/// More mounts than this on one place are not of our making.
const TALLEST_STACK: usize = 64;

/// Makes sure that the target shows the source; the caller holds the volume's lock.
///
/// The mount point is made if it is missing. A corrupted mount in the way is removed, any other is an error.
///
/// Called twice: the second call finds the bind and does nothing. A call that died between bind and read-only remount
/// (before Linux 5.12) is completed.
pub async fn ensure_bind(mounter: &dyn Mounter, bind: &Bind) -> Result<Outcome, MountError> {
    if !mounter.is_mounted(&bind.target).await? {
        return make_bind(mounter, bind).await;
    }
    let shown = mounter.identify(&bind.source).await?;
    let is_same = |mount: &Mount<'_>| {
        // Read-only by the filesystem is not for the bind to decide.
        let writable_as_asked = bind.read_only || !mount.has_option("ro");
        let same_thing = mount.device() == shown.device && mount.shown() == shown.root;
        same_thing && !mount.root_deleted() && writable_as_asked
    };
    match clear_way(mounter, &bind.target, is_same).await? {
        Way::Free => make_bind(mounter, bind).await,
        Way::Taken { read_only } if bind.read_only && !read_only => {
            mounter.make_read_only(&bind.target).await?;
            Ok(Outcome::Done)
        }
        Way::Taken { .. } => Ok(Outcome::Already),
    }
}

async fn make_bind(mounter: &dyn Mounter, bind: &Bind) -> Result<Outcome, MountError> {
    let directory = mounter.is_directory(&bind.source).await?;
    make_mount_point(&bind.target, directory).await?;
    mounter.bind(bind).await?;
    Ok(Outcome::Done)
}

/// Makes sure that the filesystem is mounted at the target; the caller holds the volume's lock.
///
/// The mount point is made if it is missing. A corrupted mount in the way is removed, any other is an error.
///
/// Called twice: the second call finds the mount and does nothing. Options other than read-only are not compared: the
/// kernel does not report them as they were given.
pub async fn ensure_mounted(mounter: &dyn Mounter, mount: &FsMount) -> Result<Outcome, MountError> {
    if mounter.is_mounted(&mount.target).await? {
        let source = PathBuf::from(&mount.source);
        let disk = blocking(move || Device::of_disk(&source)).await;
        let is_same = |found: &Mount<'_>| {
            // A disk has several names but one number; a btrfs is known by name only.
            let same_source = found.source() == mount.source || Some(found.device()) == disk;
            // A btrfs shows one of its subvolumes, by option or by default.
            let whole = found.root() == Path::new("/") || found.kind() == "btrfs";
            same_source && whole && found.has_option("ro") == mount.read_only()
        };
        match clear_way(mounter, &mount.target, is_same).await? {
            Way::Taken { .. } => return Ok(Outcome::Already),
            Way::Free => {}
        }
    }
    make_mount_point(&mount.target, true).await?;
    mounter.mount(mount).await?;
    Ok(Outcome::Done)
}

/// Makes sure that nothing is mounted at the target, however many mounts are stacked there. A corrupted mount that
/// refuses is forced. The mount point stays: see [`remove_mount_point`].
///
/// Called twice: the second call finds nothing and does nothing. A target that does not exist is not mounted.
pub async fn ensure_unmounted(
    mounter: &dyn Mounter,
    target: &Path,
    how: Unmount,
) -> Result<Outcome, MountError> {
    let mut outcome = Outcome::Already;
    for _ in 0..TALLEST_STACK {
        if !mounter.is_mounted(target).await? {
            return Ok(outcome);
        }
        match unmount_even_corrupted(mounter, target, how).await {
            Ok(()) => outcome = Outcome::Done,
            // Another process was faster.
            Err(MountError::Refusal { source, .. })
                if is_gone(&source) && !mounter.is_mounted(target).await? => {}
            Err(error) => return Err(error),
        }
    }
    Err(MountError::Busy {
        target: target.to_owned(),
        below: Vec::new(),
    })
}

/// Removes an empty directory or a file that served as mount point. Whatever is in a directory stays, and so does it.
///
/// Called twice: the second call finds nothing and does nothing.
pub async fn remove_mount_point(target: &Path) -> Result<Outcome, MountError> {
    let place = target.to_owned();
    let removed = blocking(move || match fs::remove_dir(&place) {
        // Only now, for a directory may be a mount that hangs; removing it is refused without a look inside.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            match fs::symlink_metadata(&place)?.len() {
                0 => fs::remove_file(&place),
                // What is not empty is data, not a mount point.
                _ => Err(Errno::NOTEMPTY.into()),
            }
        }
        removed => removed,
    })
    .await;
    match removed {
        Ok(()) => Ok(Outcome::Done),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Outcome::Already),
        Err(source) => Err(MountError::Refusal {
            doing: "remove",
            target: target.to_owned(),
            source,
        }),
    }
}

/// What is at a target after corrupted mounts were removed from it.
enum Way {
    /// Nothing.
    Free,
    /// What is wanted, perhaps still writable.
    Taken { read_only: bool },
}

async fn clear_way(
    mounter: &dyn Mounter,
    target: &Path,
    is_same: impl Fn(&Mount<'_>) -> bool,
) -> Result<Way, MountError> {
    for _ in 0..TALLEST_STACK {
        let view = mounter.look(target).await?;
        let Some(mount) = view.mount() else {
            return Ok(Way::Free);
        };
        let (same, read_only) = (is_same(&mount), mount.read_only());
        let holder = format!(
            "{} of {}",
            mount.shown().display(),
            mount.source().to_string_lossy()
        );
        match mounter.health(&view.point).await {
            // Even what should be there: mounted again it may find its server.
            Health::Corrupted(_) => {
                unmount_even_corrupted(mounter, &view.point, Unmount::Normal).await?;
            }
            _ if same => return Ok(Way::Taken { read_only }),
            Health::Alive | Health::Hung | Health::Missing => {
                return Err(MountError::Occupied {
                    target: target.to_owned(),
                    holder,
                });
            }
        }
    }
    Err(MountError::Busy {
        target: target.to_owned(),
        below: Vec::new(),
    })
}

/// A dead server may refuse an ordinary unmount with its own error.
async fn unmount_even_corrupted(
    mounter: &dyn Mounter,
    target: &Path,
    how: Unmount,
) -> Result<(), MountError> {
    match mounter.unmount(target, how).await {
        Err(MountError::Refusal { source, .. }) if how == Unmount::Normal && corrupted(&source) => {
            mounter.unmount(target, Unmount::Force).await
        }
        unmounted => unmounted,
    }
}

fn corrupted(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(is_corruption)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INVAL | Errno::NOENT)
    )
}

async fn make_mount_point(target: &Path, directory: bool) -> Result<(), MountError> {
    let place = target.to_owned();
    let made = blocking(move || {
        let made = if directory {
            fs::DirBuilder::new().mode(0o750).create(&place)
        } else {
            fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o640)
                .open(&place)
                .map(drop)
        };
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let kind = fs::symlink_metadata(&place)?.file_type();
                Ok(if directory {
                    kind.is_dir()
                } else {
                    !kind.is_dir() && !kind.is_symlink()
                })
            }
            made => made.map(|()| true),
        }
    })
    .await;
    match made {
        Ok(true) => Ok(()),
        Ok(false) => {
            let wanted = if directory { "directory" } else { "file" };
            Err(MountError::MountPoint {
                target: target.to_owned(),
                wanted,
            })
        }
        Err(source) => Err(MountError::Refusal {
            doing: "create mount point",
            target: target.to_owned(),
            source,
        }),
    }
}
