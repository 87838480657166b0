//! A new UUID for a copy.
//!
//! xfs refuses to mount a filesystem whose twin is mounted, and btrfs may take one for the other. Both tools that
//! change the UUID have a trap: `xfs_db` does nothing to a filesystem with a log to replay and returns success,
//! `btrfstune` changes one with a log to replay and leaves it unmountable. A copy of a filesystem in use has such a
//! log, so it is replayed first, by a mount.

use std::path::Path;
use std::time::Duration;

use super::check::check_fully;
use super::probe::read_head;
use super::{Content, FsError, FsKind, probe, superblock};
use crate::exec::{Exec, Invocation, tools};
use crate::mount::{FsMount, Mounter, Unmount, ensure_unmounted};

const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Gives the unmounted filesystem on `device` a new random UUID. `scratch` is an empty directory to mount it on if
/// its log has to be replayed.
///
/// Called twice: it gets another UUID. After a call that died the copy is to be made again.
pub async fn renew_identity(
    exec: &dyn Exec,
    mounter: &dyn Mounter,
    device: &Path,
    kind: FsKind,
    scratch: &Path,
) -> Result<(), FsError> {
    let before = uuid(exec, device).await?;
    match kind {
        FsKind::Ext4 => {
            check_fully(exec, device).await?;
            run(
                exec,
                Invocation::new(tools::TUNE2FS).args(["-U", "random"]),
                device,
            )
            .await?;
        }
        FsKind::Xfs => {
            let generate = Invocation::new(tools::XFS_DB).args(["-x", "-c", "uuid generate"]);
            // It fails or does nothing if there is a log.
            let done = run(exec, generate.clone(), device).await;
            if done.is_err() || uuid(exec, device).await? == before {
                replay(mounter, device, kind, scratch).await?;
                run(exec, generate, device).await?;
            }
        }
        FsKind::Btrfs => {
            if has_log(device).await? {
                replay(mounter, device, kind, scratch).await?;
            }
            if has_log(device).await? {
                return Err(FsError::PendingLog {
                    device: device.to_owned(),
                    kind,
                    source: None,
                });
            }
            // -m changes the superblock only; -u, which rewrites all metadata, is for tools that do not know it.
            if run(exec, Invocation::new(tools::BTRFSTUNE).arg("-m"), device)
                .await
                .is_err()
            {
                run(
                    exec,
                    Invocation::new(tools::BTRFSTUNE).args(["-f", "-u"]),
                    device,
                )
                .await?;
            }
        }
    }
    if uuid(exec, device).await? == before {
        return Err(FsError::SameIdentity {
            device: device.to_owned(),
            kind,
        });
    }
    Ok(())
}

async fn run(exec: &dyn Exec, invocation: Invocation, device: &Path) -> Result<(), FsError> {
    exec.run(invocation.arg(device).timeout(TIMEOUT))
        .await?
        .checked()?;
    Ok(())
}

async fn uuid(exec: &dyn Exec, device: &Path) -> Result<Option<String>, FsError> {
    match probe(exec, device).await? {
        Content::Filesystem { uuid, .. } => Ok(uuid),
        _ => Ok(None),
    }
}

async fn has_log(device: &Path) -> Result<bool, FsError> {
    Ok(superblock::has_btrfs_log(&read_head(device).await?))
}

/// Mounts and unmounts, which applies the log.
async fn replay(
    mounter: &dyn Mounter,
    device: &Path,
    kind: FsKind,
    scratch: &Path,
) -> Result<(), FsError> {
    let mount = FsMount {
        kind: kind.name().to_owned(),
        source: device.into(),
        target: scratch.to_owned(),
        // The twin may be mounted. btrfs allows that by itself since Linux 6.7 and refuses before.
        options: if kind == FsKind::Xfs {
            vec!["nouuid".to_owned()]
        } else {
            Vec::new()
        },
        timeout: TIMEOUT,
    };
    let pending = |source| FsError::PendingLog {
        device: device.to_owned(),
        kind,
        source: Some(source),
    };
    mounter.mount(&mount).await.map_err(pending)?;
    ensure_unmounted(mounter, scratch, Unmount::Normal).await?;
    Ok(())
}
