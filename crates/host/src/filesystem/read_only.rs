//! Mounting what cannot be written.

use std::path::Path;

use super::probe::read_head;
use super::{FsError, FsKind, superblock};

/// The options for a filesystem on a device that cannot be written. The kernel refuses one whose log it would have to apply,
/// unless it is told to leave the log alone: what is only there is then not seen.
pub async fn read_only_options(
    device: &Path,
    kind: FsKind,
) -> Result<&'static [&'static str], FsError> {
    Ok(match kind {
        FsKind::Ext4 if superblock::has_ext4_log(&read_head(device).await?) => &["ro", "noload"],
        FsKind::Xfs => &["ro", "norecovery"],
        FsKind::Ext4 | FsKind::Btrfs => &["ro"],
    })
}
