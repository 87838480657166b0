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
    backing: Backing,
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
        Some(Attached {
            device,
            backing,
            file,
        })
    };
    Ok(attached.into_iter().filter_map(below).collect())
}

/// Called twice, or by two at once: whoever comes late finds it done. The number of a device that is gone may be another's
/// by then, so it is looked at again.
pub(crate) fn detach(attached: &Attached) -> Result<()> {
    if !is_attached(attached)? {
        return Ok(());
    }
    match capture(Command::new("losetup").args(["--detach", &attached.device])) {
        Err(_) if !is_attached(attached)? => Ok(()),
        detached => detached.map(drop),
    }
}

fn is_attached(attached: &Attached) -> Result<bool> {
    let now = all_attached()?;
    let is_it = |(device, backing): &(String, Backing)| {
        (device, backing) == (&attached.device, &attached.backing)
    };
    Ok(now.iter().any(is_it))
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
    use std::thread;

    use super::*;
    use crate::testing::eventually;

    fn attach(file: &Path) -> String {
        fs::File::create(file).unwrap().set_len(1 << 20).unwrap();
        let mut losetup = Command::new("losetup");
        let device = capture(losetup.args(["--find", "--show"]).arg(file)).unwrap();
        device.trim().to_owned()
    }

    /// The files below a directory that are attached.
    fn left(directory: &Path) -> Vec<PathBuf> {
        let attached = attached_below(directory).unwrap();
        attached.into_iter().map(|attached| attached.file).collect()
    }

    /// The kernel waits with a device that somebody is just looking at.
    fn all_detached(directory: &Path) {
        eventually("the loops are detached", || left(directory).is_empty());
    }

    #[test]
    fn a_loop_of_ours_is_detached_and_a_foreign_one_stays() {
        let (ours, foreign) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        attach(&ours.path().join("disk"));
        let foreign_disk = foreign.path().join("disk");
        attach(&foreign_disk);
        let detached = detach_below(ours.path());
        let others = left(foreign.path());
        detach_below(foreign.path()).unwrap();
        detached.unwrap();
        assert_eq!(others, [foreign_disk]);
        all_detached(ours.path());
    }

    #[test]
    fn loops_that_two_detach_at_once_are_detached() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..8 {
            attach(&directory.path().join(number.to_string()));
        }
        let detach_all = || {
            let attached = attached_below(directory.path())?;
            attached.iter().try_for_each(detach)
        };
        let outcomes = thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(detach_all));
            threads.map(|thread| thread.join().unwrap())
        });
        for outcome in outcomes {
            outcome.unwrap();
        }
        all_detached(directory.path());
    }

    #[test]
    fn a_number_that_another_has_by_now_is_left_alone() {
        let (ours, foreign) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        attach(&foreign.path().join("disk"));
        let mut stale = attached_below(foreign.path()).unwrap().remove(0);
        stale.backing.1 = ours.path().metadata().unwrap().ino();
        let outcome = detach(&stale);
        let left = left(foreign.path());
        detach_below(foreign.path()).unwrap();
        outcome.unwrap();
        assert_eq!(left.len(), 1, "it was detached");
    }
}
