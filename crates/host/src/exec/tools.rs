//! The host tools this crate calls. A driver with tools of its own keeps a table like this one.

use super::Tool;

const fn tool(name: &'static str, package: &'static str) -> Tool {
    Tool { name, package }
}

/// Mounts a filesystem, by the filesystem's own helper if it has one.
pub const MOUNT: Tool = tool("mount", "mount");
/// Tells what a device holds.
pub const BLKID: Tool = tool("blkid", "util-linux");
/// Makes an ext4.
pub const MKFS_EXT4: Tool = tool("mkfs.ext4", "e2fsprogs");
/// Checks and repairs an ext4.
pub const E2FSCK: Tool = tool("e2fsck", "e2fsprogs");
/// Grows an ext4.
pub const RESIZE2FS: Tool = tool("resize2fs", "e2fsprogs");
/// Changes an ext4's identity.
pub const TUNE2FS: Tool = tool("tune2fs", "e2fsprogs");
/// Makes an xfs.
pub const MKFS_XFS: Tool = tool("mkfs.xfs", "xfsprogs");
/// Grows an xfs.
pub const XFS_GROWFS: Tool = tool("xfs_growfs", "xfsprogs");
/// Edits an xfs that is not mounted. (`xfs_admin` is a shell script around it, and images have no shell.)
pub const XFS_DB: Tool = tool("xfs_db", "xfsprogs");
/// Makes a btrfs.
pub const MKFS_BTRFS: Tool = tool("mkfs.btrfs", "btrfs-progs");
/// Grows a btrfs.
pub const BTRFS: Tool = tool("btrfs", "btrfs-progs");
/// Changes a btrfs's identity.
pub const BTRFSTUNE: Tool = tool("btrfstune", "btrfs-progs");
