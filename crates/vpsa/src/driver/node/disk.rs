//! The disks of arrays that this node knows: by the links that udev makes for each path to one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stowage_host::blocking;
use stowage_host::mountinfo::{self, Mount, MountTable};

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

/// The disks of a target, or of all, by the links in a directory. Maps are not looked for.
pub async fn disks(by_path: &Path, target: Option<&str>) -> Vec<Disk> {
    let (directory, wanted) = (by_path.to_owned(), target.map(str::to_owned));
    blocking(move || {
        let links = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut disks: BTreeMap<(String, u64), Disk> = BTreeMap::new();
        for link in links {
            let name = link.file_name();
            let Some((target, lun)) = name.to_str().and_then(place) else {
                continue;
            };
            if wanted.as_deref().is_some_and(|wanted| wanted != target) {
                continue;
            }
            let Some(device) = Device::at(&link.path()) else {
                continue;
            };
            let disk = disks.entry((target.to_owned(), lun)).or_insert(Disk {
                target: target.to_owned(),
                lun,
                paths: Vec::new(),
                held: false,
                map: None,
            });
            disk.held |= is_held(device.name());
            disk.paths.push(device);
        }
        let mut disks: Vec<Disk> = disks.into_values().collect();
        for disk in &mut disks {
            // The same order every time.
            disk.paths.sort_by(|one, other| one.path.cmp(&other.path));
        }
        disks
    })
    .await
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
mod tests {
    use super::*;

    #[test]
    fn links_tell_target_and_number_and_those_to_partitions_do_not_count() {
        for (link, expected) in [
            ("ip-10.0.0.1:3260-iscsi-iqn.a:b-lun-3", Some(("iqn.a:b", 3))),
            ("ip-fd00::1:3260-iscsi-iqn.a-lun-0", Some(("iqn.a", 0))),
            ("ip-10.0.0.1:3260-iscsi-iqn.a-lun-3-part1", None),
            (
                "ip-10.0.0.1:3260-iscsi-iqn.a-lun-0x4100000000000000",
                Some(("iqn.a", 256)),
            ),
            (
                "ip-10.0.0.1:3260-iscsi-iqn.a-lun-0x012c000000000000",
                Some(("iqn.a", 300)),
            ),
            (
                "ip-10.0.0.1:3260-iscsi-iqn.a-lun-0x4100000000000000-part1",
                None,
            ),
            ("ip-10.0.0.1:3260-iscsi-iqn.a-lun-0xc101000000000000", None),
            ("ip-10.0.0.1:3260-iscsi-iqn.a-lun-0x4100", None),
            ("pci-0000:00:1f.2-ata-1", None),
        ] {
            assert_eq!(place(link), expected, "{link}");
        }
    }

    /// A table with a filesystem of device 253:3, and a raw device.
    const TABLE: &str = "\
        30 1 253:3 / /staged rw - xfs /dev/mapper/mpatha rw\n\
        31 1 0:6 /sdc /staged-raw rw - devtmpfs udev rw\n";

    fn device(path: &str, numbers: (u32, u32)) -> Device {
        let (major, minor) = numbers;
        Device {
            path: path.into(),
            number: Some(mountinfo::Device { major, minor }),
        }
    }

    fn disk(paths: Vec<Device>, map: Option<Device>, held: bool) -> Disk {
        Disk {
            target: "iqn.a".to_owned(),
            lun: 1,
            paths,
            held,
            map: map.map(|device| Map {
                name: "mpatha".to_owned(),
                device,
                working: 2,
            }),
        }
    }

    #[test]
    fn a_disk_is_in_use_by_its_map_by_a_path_or_by_somebody_nobody_knows() {
        let table = MountTable::parse(TABLE).unwrap();
        let (sda, sdb, sdc) = (
            device("/dev/sda", (8, 0)),
            device("/dev/sdb", (8, 16)),
            device("/dev/sdc", (8, 32)),
        );
        let (used, free) = (device("/dev/dm-3", (253, 3)), device("/dev/dm-4", (253, 4)));
        for (disk, is_used) in [
            (disk(vec![sda.clone(), sdb.clone()], Some(used), true), true),
            (
                disk(vec![sda.clone(), sdb.clone()], Some(free), true),
                false,
            ),
            (disk(vec![sda.clone()], None, false), false),
            (disk(vec![sda], None, true), true),
            (disk(vec![sdb, sdc], None, false), true),
        ] {
            assert_eq!(disk.is_used(&table), is_used, "{disk:?}");
        }
    }
}
