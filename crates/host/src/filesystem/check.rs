//! Checking a filesystem before it is mounted.

use std::path::Path;
use std::time::Duration;

use super::{FsError, FsKind};
use crate::exec::{Exec, Invocation, tools};

/// A large ext4 after a crash takes its time.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Errors were found and corrected.
const CORRECTED: i32 = 1;
/// The same, and a machine that had it mounted should be restarted.
const CORRECTED_RESTART: i32 = 2;
/// Errors were left.
const UNCORRECTED: i32 = 4;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// Nothing wrong.
    Clean,
    /// Something wrong, which is repaired.
    Repaired,
    /// This kind checks itself when it is mounted.
    NotNeeded,
}

/// Checks a filesystem that is not mounted, and repairs what can be repaired without asking.
///
/// xfs and btrfs replay their log at mount; their repair tools are for people, not for every start of a pod.
///
/// Called twice: the second check finds what the first one left.
pub async fn check(exec: &dyn Exec, device: &Path, kind: FsKind) -> Result<Checked, FsError> {
    match kind {
        FsKind::Ext4 => preen(exec, device, &[]).await,
        FsKind::Xfs | FsKind::Btrfs => Ok(Checked::NotNeeded),
    }
}

/// Applies the journal and looks at everything, whatever the filesystem says of itself.
pub(super) async fn check_fully(exec: &dyn Exec, device: &Path) -> Result<Checked, FsError> {
    preen(exec, device, &["-f"]).await
}

async fn preen(exec: &dyn Exec, device: &Path, options: &[&str]) -> Result<Checked, FsError> {
    let invocation = Invocation::new(tools::E2FSCK)
        .arg("-p")
        .args(options)
        .arg("--")
        .arg(device)
        .timeout(TIMEOUT);
    let mut output = exec.run(invocation).await?;
    // The reason is in one, the verdict in the other.
    output
        .stderr
        .splice(..0, std::mem::take(&mut output.stdout));
    match output.code() {
        Some(0) => Ok(Checked::Clean),
        // The code is a sum; anything but these two in it is an error.
        Some(code) if code & !(CORRECTED | CORRECTED_RESTART) == 0 => Ok(Checked::Repaired),
        Some(code) if code & UNCORRECTED != 0 => Err(FsError::Damaged {
            device: device.to_owned(),
            said: output.failure().to_string(),
        }),
        _ => Err(output.failure().into()),
    }
}
