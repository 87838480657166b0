//! Debian's packages: a few are installed, most are only unpacked into the cache, so that no service
//! of theirs starts on the machine and nothing has to be removed again.

mod source;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

pub use self::source::unpack_source;
use crate::error::{Doing, Result};
use crate::process::logged;
use crate::report::Report;
use crate::{checksums, places};

/// Installed, because they work on the machine itself: the command that proves it is there, and its package.
const FOR_RUNNING: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("setpriv", "util-linux"),
];

/// Needed only to build Kubernetes.
pub const FOR_BUILDING: &[(&str, &str)] = &[
    ("rsync", "rsync"),
    ("make", "make"),
    ("dpkg-source", "dpkg-dev"),
    ("xz", "xz-utils"),
];

/// What drivers run on a node: in our image, and on the machine for tests without a cluster.
pub const FOR_DRIVERS: &[(&str, &str)] = &[
    ("mount", "mount"),
    ("blkid", "util-linux"),
    ("nsenter", "util-linux"),
    ("mkfs.ext4", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("resize2fs", "e2fsprogs"),
    ("tune2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_growfs", "xfsprogs"),
    ("xfs_db", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("btrfs", "btrfs-progs"),
    ("btrfstune", "btrfs-progs"),
];

/// What our pages have their readers type, for the tests that type it.
pub const FOR_PAGES: &[(&str, &str)] = &[("curl", "curl"), ("jq", "jq")];

/// What is taken out of which package. The last path component becomes the name in the cache.
const TOOLS: &[(&str, &[&str])] = &[
    ("etcd-server", &["usr/bin/etcd"]),
    (
        "containerd",
        &[
            "usr/bin/containerd",
            "usr/bin/containerd-shim-runc-v2",
            "usr/bin/ctr",
        ],
    ),
    ("runc", &["usr/bin/runc"]),
    ("libseccomp2", &[]),
    (
        "containernetworking-plugins",
        &[
            "usr/lib/cni/ptp",
            "usr/lib/cni/host-local",
            "usr/lib/cni/loopback",
            "usr/lib/cni/portmap",
        ],
    ),
    ("catatonit", &["usr/bin/catatonit"]),
    ("busybox-static", &["bin/busybox"]),
];

/// Makes sure of what the dev cluster needs from Debian; returns the directory of the unpacked tools.
/// Called twice: the second call only verifies.
pub fn ensure_tools(report: &Report) -> Result<PathBuf> {
    install_missing(FOR_RUNNING, report)?;
    let tools = tools_directory();
    if checksums::is_sealed(&tools) {
        checksums::verify(&tools)?;
        return Ok(tools);
    }
    let step = report.step("Fetching etcd, containerd and runc from Debian's packages");
    let scratch = Scratch::new("tools")?;
    let wanted: Vec<&str> = TOOLS
        .iter()
        .filter(|(_, files)| !files.is_empty())
        .map(|(package, _)| *package)
        .collect();
    unpack(&wanted, scratch.path(), report)?;
    let next = scratch.path().join("next");
    places::make(&next)?;
    for file in TOOLS.iter().flat_map(|(_, files)| *files) {
        let from = scratch.path().join("root").join(file);
        let to = next.join(Path::new(file).file_name().unwrap_or_default());
        fs::copy(&from, &to).doing(|| format!("cannot copy `{}`", from.display()))?;
    }
    checksums::seal(&next)?;
    scratch.become_directory(&next, &tools)?;
    step.done("");
    Ok(tools)
}

/// Where the unpacked tools are, once they are.
pub fn tools_directory() -> PathBuf {
    places::cache().join("tools-1")
}

/// Installs the packages whose command is missing, all at once.
pub fn install_missing(needed: &[(&str, &str)], report: &Report) -> Result<()> {
    let missing: Vec<&str> = needed
        .iter()
        .filter(|(command, _)| find_command(command).is_none())
        .map(|(_, package)| *package)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let step = report.step(format!("Installing {}", missing.join(", ")));
    with_fresh_lists(report, || {
        let mut install = Command::new("apt-get");
        install
            .args(["install", "--yes", "--no-install-recommends"])
            .args(&missing)
            .env("DEBIAN_FRONTEND", "noninteractive");
        logged(&mut install, report.log(), |_| ())
    })?;
    step.done("");
    Ok(())
}

/// Downloads packages and unpacks them into `<scratch>/root`.
pub fn unpack(packages: &[&str], scratch: &Path, report: &Report) -> Result<()> {
    let debs = scratch.join("debs");
    places::make(&debs)?;
    with_fresh_lists(report, || {
        let mut download = Command::new("apt-get");
        download.arg("download").args(packages).current_dir(&debs);
        logged(&mut download, report.log(), |_| ())
    })?;
    for entry in fs::read_dir(&debs).doing(|| format!("cannot read `{}`", debs.display()))? {
        let deb = entry
            .doing(|| "cannot read a directory entry".to_owned())?
            .path();
        let mut extract = Command::new("dpkg-deb");
        extract.arg("-x").arg(&deb).arg(scratch.join("root"));
        logged(&mut extract, report.log(), |_| ())?;
    }
    Ok(())
}

/// Where a command of the machine is.
pub fn find_command(name: &str) -> Option<PathBuf> {
    let path = env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .map(|directory| Path::new(directory).join(name))
        .find(|file| file.is_file())
}

/// A directory in the cache that is gone when the work is over, whether it went well or not.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// Makes it.
    pub fn new(what: &str) -> Result<Self> {
        let cache = places::cache();
        places::make(&cache)?;
        tempfile::Builder::new()
            .prefix(&format!("unfinished-{what}-"))
            .tempdir_in(&cache)
            .map(Self)
            .doing(|| format!("cannot make a directory in `{}`", cache.display()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Moves a finished part of it to its final place in one step.
    pub fn become_directory(&self, finished: &Path, place: &Path) -> Result<()> {
        places::remove(place)?;
        fs::rename(finished, place).doing(|| format!("cannot rename to `{}`", place.display()))
    }
}

/// Package lists are updated only when `work` fails with what is there: most machines need it once.
fn with_fresh_lists(report: &Report, work: impl Fn() -> Result<()>) -> Result<()> {
    if work().is_ok() {
        return Ok(());
    }
    logged(Command::new("apt-get").arg("update"), report.log(), |_| ())?;
    work()
}
