//! The disks of arrays that this node knows: by the links that udev makes for each path to one, and by what the kernel shows.
//!
//! No link does not mean no disk: udev may not run, its links may not be where the driver looks, and two paths may share one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use stowage_host::blocking;
use stowage_host::mountinfo::{self, Mount, MountTable};

use super::kernel::{self, KernelPath};

/// The major number of what is on no disk.
const NO_DISK: u32 = 0;

/// A disk of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The target it is at.
    pub target: String,
    /// Its number there.
    pub lun: u64,
    /// The device of each path to it; at least one.
    pub paths: Vec<Device>,
    /// The kernel says that something else stands on a path, such as a map.
    pub held: bool,
    /// The device for all paths together, if there is one.
    pub map: Option<Map>,
    /// There is a link to it; if not, only the kernel shows it.
    pub is_linked: bool,
}

/// A device of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Where it is.
    pub path: PathBuf,
    /// Its number, by which the kernel's table of mounts knows it.
    pub number: Option<mountinfo::Device>,
}

/// The device for all paths to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub device: Device,
    /// How many of the paths work.
    pub working: usize,
}

impl Device {
    /// The device that a link leads to, if it is there.
    pub fn at(link: &Path) -> Option<Self> {
        let path = std::fs::canonicalize(link).ok()?;
        let number = mountinfo::Device::of_disk(&path);
        Some(Self { path, number })
    }

    /// Whether a mount is that of its filesystem, or shows the device itself.
    fn is_at(&self, mount: &Mount<'_>) -> bool {
        if is_device(mount) {
            mount.root().file_name() == self.path.file_name()
        } else {
            self.number == Some(mount.device())
        }
    }

    /// Its name in `/dev`.
    pub fn name(&self) -> &str {
        let name = self.path.file_name().unwrap_or_default();
        name.to_str().unwrap_or_default()
    }
}

impl Disk {
    /// The device that pods use.
    pub fn device(&self) -> Option<&Device> {
        let map = self.map.as_ref().map(|map| &map.device);
        map.or_else(|| self.paths.first())
    }

    /// The devices that whoever uses it has claimed. Paths of a map are the map's.
    pub fn topmost(&self) -> Vec<&Device> {
        match &self.map {
            Some(map) => vec![&map.device],
            None => self.paths.iter().collect(),
        }
    }

    /// Whether a mount is that of its filesystem, or shows the disk itself.
    pub fn is_at(&self, mount: &Mount<'_>) -> bool {
        let map = self.map.iter().map(|map| &map.device);
        let mut devices = map.chain(&self.paths);
        devices.any(|device| device.is_at(mount))
    }

    /// Whether something is mounted from it, or shows it. What the kernel says somebody has, and nobody knows as whose, is in
    /// use.
    pub fn is_used(&self, table: &MountTable) -> bool {
        (self.held && self.map.is_none()) || table.iter().any(|mount| self.is_at(&mount))
    }

    /// Whether `multipathd` may have a device for it.
    pub fn may_have_map(&self) -> bool {
        self.held || self.paths.len() > 1
    }
}

/// Whether a mount shows a device, and no filesystem on it.
pub fn is_device(mount: &Mount<'_>) -> bool {
    ["devtmpfs", "tmpfs"]
        .iter()
        .any(|kind| mount.kind() == *kind)
}

/// Whether a mount shows a device, or a filesystem on one.
pub fn is_on_disk(mount: &Mount<'_>) -> bool {
    is_device(mount) || mount.device().major != NO_DISK
}

/// Why nobody can say which disks there are.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The kernel's own list.
    #[error("cannot read which disks of iSCSI the kernel has ({}): is sysfs mounted where the driver runs?", path.display())]
    Kernel {
        /// Where it should be.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The links.
    #[error("cannot read the links to disks ({}): does the pod of the driver have the host's /dev?", path.display())]
    Links {
        /// Where they should be.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel has a disk that there is no link to.
    #[error("the kernel has disk {lun} of {target} as {}, and {} has no link to it: does udev run on the node, and does the pod of the driver have the host's /dev?", device.display(), links.display())]
    NoLink {
        /// The target.
        target: String,
        /// Its number there.
        lun: u64,
        /// Its device.
        device: PathBuf,
        /// Where the link should be.
        links: PathBuf,
    },
}

/// Where it is told which disks there are.
#[derive(Clone, Debug)]
pub struct Places {
    /// The links that udev makes.
    pub links: PathBuf,
    /// The kernel's own list.
    pub sysfs: PathBuf,
}

impl Places {
    /// The disks of a target, or of all: those that there are links to, and those that only the kernel shows. Maps are not looked
    /// for. That there are no links at all is normal where there is no disk.
    pub async fn disks(&self, target: Option<&str>) -> Result<Vec<Disk>, DiskError> {
        let (places, wanted) = (self.clone(), target.map(str::to_owned));
        blocking(move || {
            let is_wanted = |target: &str| wanted.as_deref().is_none_or(|it| it == target);
            let shown = kernel::paths(&places.sysfs).map_err(|source| DiskError::Kernel {
                path: places.sysfs.clone(),
                source,
            })?;
            let linked = linked(&places.links).map_err(|source| DiskError::Links {
                path: places.links.clone(),
                source,
            })?;
            let mut disks: BTreeMap<(String, u64), Disk> = BTreeMap::new();
            let linked = linked.into_iter().map(|path| (path, true));
            let shown = shown.into_iter().map(|path| (path, false));
            for (path, is_linked) in linked.chain(shown) {
                if is_wanted(&path.target) {
                    add(&mut disks, path, is_linked);
                }
            }
            let mut disks: Vec<Disk> = disks.into_values().collect();
            for disk in &mut disks {
                // The same order every time.
                disk.paths.sort_by(|one, other| one.path.cmp(&other.path));
            }
            Ok(disks)
        })
        .await
    }

    /// Says why a disk is left alone that there is no link to.
    pub fn check_linked(&self, disk: &Disk) -> Result<(), DiskError> {
        if disk.is_linked {
            return Ok(());
        }
        let device = disk.device().map(|device| device.path.clone());
        Err(DiskError::NoLink {
            target: disk.target.clone(),
            lun: disk.lun,
            device: device.unwrap_or_default(),
            links: self.links.clone(),
        })
    }
}

/// A path to a disk is one however it became known.
fn add(disks: &mut BTreeMap<(String, u64), Disk>, path: KernelPath, is_linked: bool) {
    let KernelPath {
        target,
        lun,
        device,
    } = path;
    let disk = disks.entry((target.clone(), lun)).or_insert(Disk {
        target,
        lun,
        paths: Vec::new(),
        held: false,
        map: None,
        is_linked,
    });
    if disk.paths.iter().all(|known| known.path != device.path) {
        disk.held |= is_held(device.name());
        disk.paths.push(device);
    }
}

/// The disks that there are links to. Blocks.
fn linked(directory: &Path) -> io::Result<Vec<KernelPath>> {
    let links = match std::fs::read_dir(directory) {
        // udev makes it with the first disk.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        links => links?,
    };
    let mut found = Vec::new();
    for link in links {
        let link = link?;
        let name = link.file_name();
        let place = name.to_str().and_then(place);
        // One that leads nowhere is about to go.
        if let (Some((target, lun)), Some(device)) = (place, Device::at(&link.path())) {
            found.push(KernelPath {
                target: target.to_owned(),
                lun,
                device,
            });
        }
    }
    Ok(found)
}

/// Target and number in `ip-10.0.0.1:3260-iscsi-iqn.2011-04.com.zadara:vsa-1:1-lun-3`; partitions are no disks.
fn place(link: &str) -> Option<(&str, u64)> {
    let (_, rest) = link.split_once("-iscsi-")?;
    let (target, lun) = rest.rsplit_once("-lun-")?;
    let lun = match lun.strip_prefix("0x") {
        Some(digits) => number(digits)?,
        None => lun.parse().ok()?,
    };
    Some((target, lun))
}

/// The number of a disk that udev writes as the array addresses it, in 16 digits: from 256 on. The first two bits are how it
/// is addressed, the next 14 the number, and the rest is for disks behind others, which arrays do not have.
fn number(digits: &str) -> Option<u64> {
    const SIMPLE: u64 = 0b00;
    const FLAT: u64 = 0b01;
    let address = u64::from_str_radix(digits, 16).ok()?;
    let (how, number, rest) = (
        address >> 62,
        (address >> 48) & 0x3fff,
        address & 0xffff_ffff_ffff,
    );
    let is_plain = digits.len() == 16 && rest == 0 && matches!(how, SIMPLE | FLAT);
    is_plain.then_some(number)
}

/// Whether another device stands on this one.
fn is_held(name: &str) -> bool {
    let holders = Path::new("/sys/block").join(name).join("holders");
    let mut holders = std::fs::read_dir(holders).into_iter().flatten();
    holders.next().is_some()
}

#[cfg(test)]
mod tests;
