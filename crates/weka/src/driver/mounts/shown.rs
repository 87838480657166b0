//! What the mounts in the kernel's table show.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stowage_host::mountinfo::Mount;

use crate::handle::Handle;

/// What `mount(8)` calls filesystems of the Weka client, and what the simulation of it shows as.
pub(super) const WEKAFS: [&str; 2] = ["wekafs", "fuse.wekafs"];

/// The same for NFS.
pub(super) const NFS: [&str; 3] = ["nfs", "nfs4", "fuse.nfs"];

/// Whether a mount may be one of this driver's.
pub(crate) fn is_weka(mount: &Mount<'_>) -> bool {
    is_nfs(mount) || WEKAFS.iter().any(|kind| mount.kind() == *kind)
}

pub(super) fn is_nfs(mount: &Mount<'_>) -> bool {
    NFS.iter().any(|kind| mount.kind() == *kind)
}

/// What a mount shows of which filesystem.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) filesystem: OsString,
    /// From the filesystem's root.
    pub(crate) path: PathBuf,
}

impl Shown {
    /// What each mount of a volume shows.
    pub(crate) fn of(volume: &Handle) -> Self {
        Self {
            filesystem: volume.filesystem().into(),
            path: Path::new("/").join(volume.path()),
        }
    }

    /// The filesystem's name is the source or, by NFS, follows the server's address.
    pub(crate) fn by(mount: &Mount<'_>) -> Option<Self> {
        if !is_nfs(mount) {
            return Some(Self {
                filesystem: mount.source().to_owned(),
                path: mount.root().to_owned(),
            });
        }
        let export = mount.export()?;
        let within = export.strip_prefix("/").ok()?;
        let filesystem = within.components().next()?.as_os_str();
        let below = within.strip_prefix(filesystem).ok()?;
        Some(Self {
            filesystem: filesystem.to_owned(),
            path: Path::new("/").join(below),
        })
    }
}

/// Whether a mount by NFS is one of the same filesystem from the same server. One in a snapshot may have another device.
pub(super) fn is_same_export(mount: &Mount<'_>, other: &Mount<'_>) -> bool {
    let server = |mount: &Mount<'_>| {
        let source = mount.source().to_string_lossy().into_owned();
        source.split_once(":/").map(|(server, _)| server.to_owned())
    };
    let filesystem = |mount: &Mount<'_>| Some(Shown::by(mount)?.filesystem);
    let same = is_nfs(other) && filesystem(mount) == filesystem(other);
    mount.device() == other.device() || (same && server(mount) == server(other))
}

#[cfg(test)]
mod tests {
    use stowage_host::mountinfo::MountTable;

    use super::*;

    fn table(mounts: &[&str]) -> MountTable {
        let number = |(number, line): (usize, &&str)| format!("{} 1 {line}\n", number + 50);
        let lines = mounts.iter().enumerate().map(number);
        MountTable::parse(lines.collect::<String>()).unwrap()
    }

    #[test]
    fn volumes_are_known_by_what_the_kernel_and_fuse_show_of_them() {
        for (volume, mount) in [
            (
                "dir/v1/default/csi-volumes/x",
                "0:52 /csi-volumes/x /t rw - wekafs default rw",
            ),
            (
                "dir/v1/default/csi-volumes/x",
                "0:52 / /t rw - nfs4 10.0.0.1:/default/csi-volumes/x rw",
            ),
            (
                "dir/v1/default/csi-volumes/x",
                "0:52 / /t rw - nfs4 10.0.0.1://default/csi-volumes/x rw",
            ),
            (
                "dir/v1/default/csi-volumes/a:",
                "0:52 / /t rw - nfs [fd00::1]:/default/csi-volumes/a: rw",
            ),
            (
                "dir/v1/default/csi-volumes/x",
                "0:52 /csi-volumes/x /t rw - fuse.nfs 10.0.0.1:/default rw",
            ),
            (
                "weka/v2/csivol-x",
                "0:52 / /t rw - nfs4 10.0.0.1:/csivol-x rw",
            ),
            (
                "weka/v2/default:ap",
                "0:52 / /t rw - nfs4 10.0.0.1:/default/.snapshots/ap rw",
            ),
            (
                "weka/v2/default:ap//csi-volumes/x",
                "0:53 / /t rw - nfs 10.0.0.1:/default/.snapshots/ap/csi-volumes/x rw",
            ),
        ] {
            let volume = Handle::parse(volume).unwrap();
            let table = table(&[mount]);
            let shown = Shown::by(&table.at(Path::new("/t")).unwrap()).unwrap();
            assert_eq!(shown, Shown::of(&volume), "{mount}");
        }
    }

    #[test]
    fn another_directory_or_filesystem_is_another_volume() {
        let volume = Shown::of(&Handle::parse("dir/v1/default/csi-volumes/x").unwrap());
        for mount in [
            "0:52 / /t rw - nfs4 10.0.0.1:/default rw",
            "0:52 / /t rw - nfs4 10.0.0.1:/default/csi-volumes/y rw",
            "0:52 / /t rw - nfs4 10.0.0.1:/other/csi-volumes/x rw",
            "0:52 / /t rw - nfs4 10.0.0.1:/ rw",
            "0:52 /csi-volumes/x /t rw - nfs4 default rw",
        ] {
            let table = table(&[mount]);
            let shown = Shown::by(&table.at(Path::new("/t")).unwrap());
            assert_ne!(shown.as_ref(), Some(&volume), "{mount}");
        }
    }

    #[test]
    fn a_snapshot_by_nfs_is_reached_through_the_mount_of_its_filesystem() {
        let table = table(&[
            "0:52 / /own rw - nfs4 10.0.0.1:/default rw",
            "0:53 / /snapshot rw - nfs4 10.0.0.1:/default/.snapshots/ap rw",
            "0:54 / /elsewhere rw - nfs4 10.0.0.2:/default/csi-volumes/x rw",
            "0:55 / /other rw - nfs4 10.0.0.1:/other/csi-volumes/x rw",
            "0:52 /csi-volumes/x /by-fuse rw - fuse.nfs 10.0.0.1:/default rw",
        ]);
        let at = |point: &str| table.at(Path::new(point)).unwrap();
        for (point, same) in [
            ("/snapshot", true),
            ("/by-fuse", true),
            ("/elsewhere", false),
            ("/other", false),
        ] {
            assert_eq!(is_same_export(&at("/own"), &at(point)), same, "{point}");
        }
    }
}
