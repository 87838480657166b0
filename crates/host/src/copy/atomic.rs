//! Small files that are there as a whole or not at all, whenever the power fails. All functions block.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// What files are called while they are written.
const UNFINISHED: &str = ".unfinished-";

/// How often a file is started again that somebody swept away.
const ATTEMPTS: usize = 8;

/// Writes a file so that at any moment, and after a crash at any moment, its path has the old or the new content.
/// When this returns the new content is on the disk.
///
/// Called twice: the second content replaces the first.
pub fn atomic_write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    for _ in 1..ATTEMPTS {
        match write_and_rename(directory, path, content, mode) {
            // Swept away in the moment between creation and lock.
            Err(error) if error.kind() == io::ErrorKind::NotFound && directory.exists() => {}
            written => return written,
        }
    }
    write_and_rename(directory, path, content, mode)
}

/// Removes what writers that died left behind, and returns how many files that were. Those of living writers, in
/// whichever process, are locked and stay.
///
/// Called twice: there is nothing left.
pub fn sweep_unfinished(directory: &Path) -> io::Result<usize> {
    let mut swept = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            continue;
        }
        match remove_unlocked(&entry.path()) {
            Ok(removed) => swept += usize::from(removed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(swept)
}

fn write_and_rename(directory: &Path, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = directory.join(unique_name());
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?;
    let written = (|| {
        // Held until the file has its name: a sweep leaves it alone.
        flock(&file, FlockOperation::LockExclusive)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // It failed for a reason that matters more; what is left is swept at the next start.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(directory)?.sync_all()
}

fn remove_unlocked(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => fs::remove_file(path).map(|()| true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Process numbers repeat between containers that share a directory, so the time is in it too.
fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "{UNFINISHED}{}-{:x}-{next}",
        std::process::id(),
        now.as_nanos()
    )
}
