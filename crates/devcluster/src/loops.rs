//! Loop devices belong to the machine and outlive pods and nodes: those backed by a cluster's files are detached
//! before the files go. Found by device and inode, so that nobody else's is ever touched.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use nix::sys::stat::{major, minor};

use crate::error::Result;
use crate::process::capture;

/// Detaches every loop device whose backing file lies below `directory`.
pub fn detach_below(directory: &Path) -> Result<()> {
    let columns = "NAME,BACK-INO,BACK-MAJ:MIN";
    let list =
        capture(Command::new("losetup").args(["--list", "--noheadings", "--output", columns]))?;
    let attached: Vec<(&str, Backing)> = list.lines().filter_map(parse).collect();
    if attached.is_empty() {
        return Ok(());
    }
    let ours = files_below(directory);
    for (device, _) in attached
        .iter()
        .filter(|(_, backing)| ours.contains(backing))
    {
        capture(Command::new("losetup").args(["--detach", device]))?;
    }
    Ok(())
}

/// Inode, and `major:minor` of the file system.
type Backing = (u64, String);

fn parse(line: &str) -> Option<(&str, Backing)> {
    let mut columns = line.split_whitespace();
    let device = columns.next()?;
    let inode = columns.next()?.parse().ok()?;
    Some((device, (inode, columns.next()?.to_owned())))
}

fn files_below(directory: &Path) -> HashSet<Backing> {
    let mut found = HashSet::new();
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
                found.insert((
                    metadata.ino(),
                    format!("{}:{}", major(device), minor(device)),
                ));
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
        detach_below(ours.path()).unwrap();
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
    }
}
