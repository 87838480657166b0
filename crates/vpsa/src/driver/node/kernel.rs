//! The disks of sessions as the kernel knows them, whatever udev has made of them.

use std::io;
use std::path::{Path, PathBuf};

use stowage_host::mountinfo;

use super::disk::Device;

/// A path to a disk, as the kernel shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPath {
    /// The target of its session.
    pub target: String,
    /// Its number there.
    pub lun: u64,
    /// Its device.
    pub device: Device,
}

/// All paths to disks of iSCSI, under `/sys`: `class/iscsi_session/session<n>/device/target<t>/<h>:<c>:<t>:<lun>/block/<name>`.
/// A kernel that has never had a session has none of it. Blocks.
pub fn paths(sysfs: &Path) -> io::Result<Vec<KernelPath>> {
    let class = sysfs.join("class");
    // Where there is no sysfs nobody can tell.
    entries(&class)?;
    let mut found = Vec::new();
    for session in existing(entries(&class.join("iscsi_session")))? {
        let target = existing(std::fs::read_to_string(session.join("targetname")))?;
        for place in existing(entries(&session.join("device")))? {
            if !name(&place).starts_with("target") {
                continue;
            }
            for unit in existing(entries(&place))? {
                let Some(lun) = lun(name(&unit)) else {
                    continue;
                };
                for block in existing(entries(&unit.join("block")))? {
                    found.push(KernelPath {
                        target: target.trim().to_owned(),
                        lun,
                        device: device(&block)?,
                    });
                }
            }
        }
    }
    Ok(found)
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect()
}

/// What is not there, or goes while it is looked at, is nothing.
fn existing<T: Default>(found: io::Result<T>) -> io::Result<T> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        found => found,
    }
}

fn name(path: &Path) -> &str {
    let name = path.file_name().unwrap_or_default();
    name.to_str().unwrap_or_default()
}

fn device(block: &Path) -> io::Result<Device> {
    let number = existing(std::fs::read_to_string(block.join("dev")))?;
    let number = number.trim().split_once(':').and_then(|(major, minor)| {
        Some(mountinfo::Device {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    });
    let path = Path::new("/dev").join(name(block));
    Ok(Device { path, number })
}

/// The number of a disk in `2:0:0:3`. From 256 on the kernel writes it as the array addresses it: with how in the first two of
/// 16 bits.
fn lun(name: &str) -> Option<u64> {
    let mut parts = name.split(':');
    let lun = parts.nth(3)?.parse::<u64>().ok()?;
    let is_whole = parts.next().is_none();
    let lun = match lun {
        0x4000..=0x7fff => lun & 0x3fff,
        lun => lun,
    };
    is_whole.then_some(lun)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_kernel_shows_disks_of_sessions_and_one_without_any_shows_none() {
        let sysfs = tempfile::tempdir().unwrap();
        assert!(paths(sysfs.path()).is_err(), "that is no sysfs");
        let sessions = sysfs.path().join("class/iscsi_session");
        fs::create_dir_all(sysfs.path().join("class/net")).unwrap();
        assert_eq!(paths(sysfs.path()).unwrap(), []);

        fs::create_dir_all(sessions.join("session7/device/target7:0:0/7:0:0:3/block/sdc")).unwrap();
        fs::create_dir_all(sessions.join("session7/device/target7:0:0/7:0:0:16640/block/sdd"))
            .unwrap();
        // No disk, and a session that is about to go.
        fs::create_dir_all(sessions.join("session7/device/target7:0:0/7:0:0:9/scsi_generic"))
            .unwrap();
        fs::create_dir_all(sessions.join("session8")).unwrap();
        fs::write(sessions.join("session7/targetname"), "iqn.a\n").unwrap();
        let disk = sessions.join("session7/device/target7:0:0/7:0:0:3/block/sdc");
        fs::write(disk.join("dev"), "8:32\n").unwrap();
        let mut found = paths(sysfs.path()).unwrap();
        found.sort_by_key(|path| path.lun);
        let path = |lun, path: &str, number| KernelPath {
            target: "iqn.a".to_owned(),
            lun,
            device: Device {
                path: path.into(),
                number,
            },
        };
        let number = Some(mountinfo::Device {
            major: 8,
            minor: 32,
        });
        let expected = [path(3, "/dev/sdc", number), path(256, "/dev/sdd", None)];
        assert_eq!(found, expected);
    }
}
