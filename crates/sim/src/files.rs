//! Directories of this machine, served over FUSE as the filesystems and shares of an array: with its sizes, its errors,
//! and its silence.
//!
//! - [`served`]: what the kernel asks, and what it is answered.
//! - [`tree`]: what operations do to the files behind; [`nodes`]: what the kernel knows of; [`accounts`]: who pays.
//! - [`ledger`]: how many bytes a directory or a filesystem holds, counted by several processes at once.

pub mod accounts;
pub mod ledger;
pub mod nodes;
pub mod served;
pub mod tree;

const INODE_BASE: u64 = 1 << 50;

/// The inode number that is shown for the file with this number behind it: moved up, so that it is never the number of
/// a root that the kernel reserves.
pub fn shown_inode(behind: u64) -> u64 {
    behind.wrapping_add(INODE_BASE)
}
