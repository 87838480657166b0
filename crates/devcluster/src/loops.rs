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

/// Where the kernel tells of devices.
const SYS: &str = "/sys/block";

/// How a loop device is known again: its number may be another's by the time it is detached.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// By its backing file.
    File(Backing),
    /// By the name that the kernel shows of it, which nobody else has. Where the file is nobody may know any more.
    Name(String),
}

/// A loop device of a cluster.
pub(crate) struct Attached {
    device: String,
    identity: Identity,
    /// Its backing file.
    pub(crate) file: PathBuf,
}

/// Begins the names of files that are served by processes of a cluster, and are in no directory: so a loop device tells
/// whose it is even after the process has died.
pub fn label(directory: &Path) -> String {
    directory.display().to_string().replace('/', "!")
}

/// Detaches every loop device whose backing file lies below `directory`, or has its [`label`], and those that stand on
/// another of them, as the kubelet's do for raw disks.
pub fn detach_below(directory: &Path) -> Result<()> {
    attached_below(directory)?.iter().try_for_each(detach)
}

/// Detaches those with the [`label`] of `directory` whose files nobody serves any more.
pub fn detach_dead(directory: &Path) -> Result<()> {
    let others = all_attached()?;
    let mut dead = labelled(&label(directory));
    dead.retain(|it| others.iter().all(|(device, _)| *device != it.device));
    with_those_above(dead, others).iter().try_for_each(detach)
}

/// The loop devices of a directory: those that stand on others first.
pub(crate) fn attached_below(directory: &Path) -> Result<Vec<Attached>> {
    let mut found = labelled(&label(directory));
    let mut others = all_attached()?;
    if !others.is_empty() {
        take(&mut others, &files_below(directory), &mut found);
    }
    Ok(with_those_above(found, others))
}

/// Adds the devices that stand on these, in front of them.
fn with_those_above(mut found: Vec<Attached>, mut others: Vec<(String, Backing)>) -> Vec<Attached> {
    loop {
        let nodes = found.iter().map(|it| PathBuf::from(&it.device));
        let nodes = nodes.filter_map(|node| Some((backing(&node)?, node)));
        if !take(&mut others, &nodes.collect(), &mut found) {
            found.reverse();
            return found;
        }
    }
}

/// Moves devices with one of these files; whether there are any.
fn take(
    others: &mut Vec<(String, Backing)>,
    files: &HashMap<Backing, PathBuf>,
    found: &mut Vec<Attached>,
) -> bool {
    let before = found.len();
    others.retain(|(device, backing)| {
        let Some(file) = files.get(backing) else {
            return true;
        };
        found.push(Attached {
            device: device.clone(),
            identity: Identity::File(backing.clone()),
            file: file.clone(),
        });
        false
    });
    found.len() > before
}

/// The loop devices whose file has a name with this label.
fn labelled(label: &str) -> Vec<Attached> {
    let devices = fs::read_dir(SYS).into_iter().flatten().flatten();
    let devices = devices.filter_map(|entry| entry.file_name().into_string().ok());
    let named = devices.filter_map(|device| Some((shown(&device)?, device)));
    let ours = named.filter(|(name, _)| {
        let rest = name.strip_prefix('/').and_then(|it| it.strip_prefix(label));
        rest.is_some_and(|rest| rest.starts_with('!'))
    });
    let attached = |(name, device): (String, String)| Attached {
        device: format!("/dev/{device}"),
        file: PathBuf::from(&name),
        identity: Identity::Name(name),
    };
    ours.map(attached).collect()
}

/// What the kernel shows of a device's file. It looks at nothing for it, so that it answers when nobody serves the file.
fn shown(device: &str) -> Option<String> {
    let name = fs::read_to_string(Path::new(SYS).join(device).join("loop/backing_file"));
    name.ok().map(|name| name.trim_end().to_owned())
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
    let device = attached.device.as_str();
    match &attached.identity {
        Identity::Name(name) => {
            let device = device.trim_start_matches("/dev/");
            Ok(shown(device).as_ref() == Some(name))
        }
        Identity::File(backing) => {
            let now = all_attached()?;
            Ok(now
                .iter()
                .any(|it| (it.0.as_str(), &it.1) == (device, backing)))
        }
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
                found.insert(backing_of(&metadata), entry.path());
            }
        }
    }
    found
}

fn backing(file: &Path) -> Option<Backing> {
    fs::metadata(file).ok().map(|it| backing_of(&it))
}

fn backing_of(metadata: &fs::Metadata) -> Backing {
    let device = metadata.dev();
    let filesystem = format!("{}:{}", major(device), minor(device));
    (filesystem, metadata.ino())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::testing::eventually;

    fn attach(file: &Path) -> String {
        fs::File::create(file).unwrap().set_len(1 << 20).unwrap();
        attach_to(file)
    }

    fn attach_to(file: &Path) -> String {
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
    fn a_loop_on_a_loop_of_ours_is_ours() {
        let directory = tempfile::tempdir().unwrap();
        let below = attach(&directory.path().join("disk"));
        let above = attach_to(Path::new(&attach_to(Path::new(&below))));
        let found = attached_below(directory.path()).unwrap();
        let devices: Vec<&str> = found.iter().map(|it| it.device.as_str()).collect();
        let (first, last) = (devices.first().copied(), devices.last().copied());
        let seen = (devices.len(), first == Some(&above), last == Some(&below));
        detach_below(directory.path()).unwrap();
        assert_eq!(seen, (3, true, true));
        all_detached(directory.path());
        for device in [below, above] {
            let used = PathBuf::from(device.replace("/dev", SYS)).join("loop");
            eventually("it is free", || !used.exists());
        }
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
        stale.identity = Identity::File(backing(ours.path()).unwrap());
        let outcome = detach(&stale);
        let left = left(foreign.path());
        detach_below(foreign.path()).unwrap();
        outcome.unwrap();
        assert_eq!(left.len(), 1, "it was detached");
    }
}
