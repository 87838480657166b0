//! Making a filesystem where there is nothing.

use std::path::Path;
use std::time::Duration;

use super::{Content, FsError, FsKind, probe};
use crate::Outcome;
use crate::exec::{Exec, Invocation, tools};
use crate::stat::Stats;

/// A large and slow disk may take minutes.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Makes a filesystem of this kind if the device is empty. `options` are handed to `mkfs` as they are.
///
/// Called twice: the second call finds the filesystem and does nothing. A call that died in the middle is repeated
/// from its beginning. Anything else on the device is an error and stays.
pub async fn ensure_formatted(
    exec: &dyn Exec,
    stats: &Stats,
    device: &Path,
    kind: FsKind,
    options: &[String],
) -> Result<Outcome, FsError> {
    let overwrite = match probe(exec, device).await? {
        Content::Empty => false,
        // `mkfs` of xfs and btrfs refuse what has a signature, and rightly so; this one means nothing.
        Content::Unfinished(_) => true,
        Content::Filesystem { kind: found, .. } if found == kind.name() => {
            return Ok(Outcome::Already);
        }
        found => {
            return Err(FsError::Foreign {
                device: device.to_owned(),
                found,
                wanted: kind,
            });
        }
    };
    let bytes = stats.device_bytes(device).await?;
    if bytes < kind.minimum_bytes() {
        return Err(FsError::TooSmall {
            device: device.to_owned(),
            bytes,
            kind,
        });
    }
    exec.run(mkfs(kind, overwrite).args(options).arg("--").arg(device))
        .await?
        .checked()?;
    match probe(exec, device).await? {
        Content::Filesystem { kind: made, .. } if made == kind.name() => Ok(Outcome::Done),
        found => Err(FsError::Foreign {
            device: device.to_owned(),
            found,
            wanted: kind,
        }),
    }
}

fn mkfs(kind: FsKind, overwrite: bool) -> Invocation {
    let invocation = match kind {
        // -F: a whole disk is what we have, and nobody is there to be asked; it still refuses a mounted one.
        // -m 0: nobody but the pod uses the volume, so there is nobody to reserve space for.
        FsKind::Ext4 => Invocation::new(tools::MKFS_EXT4).args(["-q", "-F", "-m", "0"]),
        FsKind::Xfs => Invocation::new(tools::MKFS_XFS).arg("-q"),
        FsKind::Btrfs => Invocation::new(tools::MKFS_BTRFS).arg("-q"),
    };
    let force = overwrite && kind != FsKind::Ext4;
    invocation.args(force.then_some("-f")).timeout(TIMEOUT)
}
