//! Loop devices belong to the machine and outlive pods and nodes: those backed by a cluster's files are detached
//! before the files go. Found by device and inode, so that nobody else's is ever touched.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::stat::{major, minor};

use crate::error::Result;
use crate::process::capture;

/// The file system of a backing file as `major:minor`, and the file's inode there.
type Backing = (String, u64);

/// A loop device whose backing file lies below a directory.
pub(crate) struct Attached {
    device: String,
    /// Its backing file.
    pub(crate) file: PathBuf,
}

/// Detaches every loop device whose backing file lies below `directory`.
pub fn detach_below(directory: &Path) -> Result<()> {
    attached_below(directory)?.iter().try_for_each(detach)
}

/// The loop devices whose backing files lie below `directory`.
pub(crate) fn attached_below(directory: &Path) -> Result<Vec<Attached>> {
    let attached = all_attached()?;
    if attached.is_empty() {
        return Ok(Vec::new());
    }
    let mut ours = files_below(directory);
    let below = |(device, backing)| {
        let file = ours.remove(&backing)?;
        Some(Attached { device, file })
    };
    Ok(attached.into_iter().filter_map(below).collect())
}

/// Called twice: the second finds no such device. A device may also go by itself between the look and the call.
pub(crate) fn detach(attached: &Attached) -> Result<()> {
    let device = &attached.device;
    match capture(Command::new("losetup").args(["--detach", device])) {
        Err(_) if !all_attached()?.iter().any(|(name, _)| name == device) => Ok(()),
        detached => detached.map(|_| ()),
    }
}

fn all_attached() -> Result<Vec<(String, Backing)>> {
    let columns = "NAME,BACK-INO,BACK-MAJ:MIN";
    let list =
        capture(Command::new("losetup").args(["--list", "--noheadings", "--output", columns]))?;
    Ok(list.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<(String, Backing)> {
    let mut columns = line.split_whitespace();
    let device = columns.next()?.to_owned();
    let inode = columns.next()?.parse().ok()?;
    Some((device, (columns.next()?.to_owned(), inode)))
}

fn files_below(directory: &Path) -> HashMap<Backing, PathBuf> {
    let mut found = HashMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                open.push(entry.path());
            } else if metadata.is_file() {
                let device = metadata.dev();
                let filesystem = format!("{}:{}", major(device), minor(device));
                found.insert((filesystem, metadata.ino()), entry.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_of_ours_is_detached_and_a_foreign_one_stays() {
        let (ours, foreign) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let attach = |directory: &Path| {
            let file = directory.join("disk");
            fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
            let mut losetup = Command::new("losetup");
            capture(losetup.args(["--find", "--show"]).arg(&file))
                .unwrap()
                .trim()
                .to_owned()
        };
        let (mine, other) = (attach(ours.path()), attach(foreign.path()));
        let attached = attached_below(ours.path()).unwrap();
        detach_below(ours.path()).unwrap();
        let again = attached.iter().try_for_each(detach);
        let list =
            capture(Command::new("losetup").args(["--list", "--noheadings", "--output", "NAME"]))
                .unwrap();
        let left: Vec<&str> = list.split_whitespace().collect();
        let detach_other = capture(Command::new("losetup").args(["--detach", &other]));
        assert!(
            !left.contains(&mine.as_str()) && left.contains(&other.as_str()),
            "{list}"
        );
        detach_other.unwrap();
        again.expect("a device that is gone is detached");
    }
}
