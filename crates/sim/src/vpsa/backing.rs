//! Where the data of volumes and snapshots is.
//!
//! ```text
//! <data>/volumes/<id>/disk       of a disk, as large as the volume
//! <data>/volumes/<id>/files/     of a share
//! <data>/volumes/<id>/ledgers/   how large the share may be; see the module `files::ledger`
//! <data>/snapshots/<id>/         the same, as it was
//! ```

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::files::ledger::{Ledgers, Standstill};

/// Bytes of a GB.
pub const GB: u64 = 1 << 30;

/// The data of all volumes and snapshots.
#[derive(Clone, Debug)]
pub struct Backing {
    data: PathBuf,
}

impl Backing {
    /// The data under a directory.
    pub fn new(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
        }
    }

    /// The file behind a disk.
    pub fn disk(&self, volume: &str) -> PathBuf {
        self.volume(volume).join("disk")
    }

    /// The directory behind a share.
    pub fn files(&self, volume: &str) -> PathBuf {
        self.volume(volume).join("files")
    }

    /// How large a share may be, and is.
    pub fn ledgers(&self, volume: &str) -> Ledgers {
        Ledgers::new(self.volume(volume).join("ledgers"))
    }

    /// Makes an empty disk, or the places of an empty share; of either the size is set.
    ///
    /// Called twice: what is there stays.
    pub fn make(&self, volume: &str, is_disk: bool, gigabytes: u64) -> io::Result<()> {
        std::fs::create_dir_all(self.volume(volume))?;
        if !is_disk {
            std::fs::create_dir_all(self.files(volume))?;
        }
        self.resize(volume, is_disk, gigabytes)
    }

    /// Makes a disk or a share as large as it should be. Called twice: it is.
    pub fn resize(&self, volume: &str, is_disk: bool, gigabytes: u64) -> io::Result<()> {
        let bytes = gigabytes * GB;
        if !is_disk {
            return self.ledgers(volume).set_total(bytes);
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.disk(volume))?;
        // A disk never shrinks: what was decided later may be carried out first.
        if file.metadata()?.len() < bytes {
            file.set_len(bytes)?;
        }
        Ok(())
    }

    /// Copies a volume to a snapshot. Called twice: copied again.
    pub fn take_snapshot(&self, volume: &str, snapshot: &str) -> io::Result<()> {
        let shares = self.files(volume).is_dir();
        let total = if shares {
            vec![Arc::new(self.ledgers(volume).open_total()?)]
        } else {
            Vec::new()
        };
        // Of a share nothing grows meanwhile; of a disk, what is written meanwhile is in or is not.
        let standstill = Standstill::of(&total)?;
        copy(&self.volume(volume), &self.snapshot(snapshot))?;
        drop(standstill);
        sync(&self.snapshot(snapshot))
    }

    /// Copies a snapshot or a volume to a new volume. Called twice: copied again.
    pub fn fill(&self, source: &str, volume: &str) -> io::Result<()> {
        let snapshot = self.snapshot(source);
        let from = if snapshot.is_dir() {
            snapshot
        } else {
            self.volume(source)
        };
        copy(&from, &self.volume(volume))?;
        sync(&self.volume(volume))
    }

    /// Removes the data of a volume. Called twice: it is gone.
    pub fn remove_volume(&self, volume: &str) -> io::Result<()> {
        remove_tree(&self.volume(volume))
    }

    /// Removes the data of a snapshot. Called twice: it is gone.
    pub fn remove_snapshot(&self, snapshot: &str) -> io::Result<()> {
        remove_tree(&self.snapshot(snapshot))
    }

    fn volume(&self, id: &str) -> PathBuf {
        self.data.join("volumes").join(id)
    }

    fn snapshot(&self, id: &str) -> PathBuf {
        self.data.join("snapshots").join(id)
    }
}

/// Copies a directory under another name; the name appears when everything is there.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let unfinished = to.with_extension("unfinished");
    remove_tree(&unfinished)?;
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let output = Command::new("cp")
        .args([
            "--archive",
            "--sparse=always",
            "--reflink=auto",
            "--no-target-directory",
        ])
        .args([from, unfinished.as_path()])
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(text));
    }
    remove_tree(to)?;
    std::fs::rename(unfinished, to)
}

fn sync(path: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(path)?)?;
    Ok(())
}

fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
