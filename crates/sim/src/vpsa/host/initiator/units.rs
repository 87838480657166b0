//! The disks of sessions, as devices with links to them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use crate::iscsi::pdu::encode_lun;
use crate::vpsa::host::HostOptions;
use crate::vpsa::host::command::Place;
use crate::vpsa::host::devices::{Device, Devices};
use crate::vpsa::host::disk::{Disk, Link};
use crate::vpsa::host::sysfs::Sysfs;

/// The disks of one session, by their numbers.
pub type Found = BTreeMap<u64, Unit>;

/// A disk that has a device.
pub struct Unit {
    /// What tells it from all others.
    pub wwid: String,
    /// The disk.
    pub disk: Arc<Disk>,
    /// Its device.
    pub device: Device,
    /// The array takes nothing that is written to it.
    pub read_only: bool,
}

/// Makes devices for the disks of sessions.
pub struct Units {
    devices: Arc<Devices>,
    by_path: PathBuf,
    sysfs: Sysfs,
}

impl Units {
    /// Begins with nothing.
    pub fn start(options: &HostOptions, devices: Arc<Devices>) -> io::Result<Self> {
        fs::create_dir_all(&options.by_path)?;
        Ok(Self {
            devices,
            by_path: options.by_path.clone(),
            sysfs: Sysfs::start(options.sysfs.as_deref())?,
        })
    }

    /// Finds disks that are new, gone, larger, or others under the same number.
    pub fn scan(
        &self,
        session: u32,
        place: &Place,
        link: &Arc<Link>,
        found: &mut Found,
    ) -> io::Result<()> {
        self.sysfs.add(session, &place.target)?;
        let luns = link.call(&async |session| session.luns().await)?;
        let gone: Vec<u64> = found
            .keys()
            .copied()
            .filter(|lun| !luns.contains(lun))
            .collect();
        for lun in gone {
            if let Some(unit) = found.remove(&lun) {
                self.devices.let_go(unit.device);
                self.sysfs.remove_disk(session, lun);
            }
        }
        for lun in luns {
            let wwid = link.call(&async |session| session.wwid(lun).await)?;
            if found.get(&lun).is_some_and(|unit| unit.wwid != wwid)
                && let Some(other) = found.remove(&lun)
            {
                // What was written to it must not come to the one that has its number now.
                self.devices.remove(other.device);
                self.sysfs.remove_disk(session, lun);
            }
            match found.get(&lun) {
                Some(unit) => self.devices.refresh(&unit.device)?,
                None => {
                    let unit = self.add(place, link, lun, wwid)?;
                    let unit = found.entry(lun).or_insert(unit);
                    self.sysfs.add_disk(session, lun, &unit.device.name())?;
                }
            }
        }
        Ok(())
    }

    /// Lets all disks of a session go, which ends after that.
    pub fn let_go_all(&self, session: u32, found: Found) {
        for (_, unit) in found {
            self.devices.let_go(unit.device);
        }
        self.sysfs.remove(session);
    }

    /// Removes all disks of a session that is over.
    pub fn remove_all(&self, session: u32, found: Found) {
        for (_, unit) in found {
            self.devices.remove(unit.device);
        }
        self.sysfs.remove(session);
    }

    fn add(&self, place: &Place, link: &Arc<Link>, lun: u64, wwid: String) -> io::Result<Unit> {
        let read_only = link.call(&async |session| session.is_read_only(lun).await)?;
        let disk = Arc::new(Disk::new(Arc::clone(link), lun)?);
        let path = self.link(place, lun);
        let device = self.devices.add(Arc::clone(&disk), read_only, path)?;
        Ok(Unit {
            wwid,
            disk,
            device,
            read_only,
        })
    }

    /// As udev names it.
    fn link(&self, place: &Place, lun: u64) -> PathBuf {
        let (ip, port, target) = (place.portal.ip(), place.portal.port(), &place.target);
        let lun = written(lun);
        self.by_path
            .join(format!("ip-{ip}:{port}-iscsi-{target}-lun-{lun}"))
    }
}

/// The number of a disk in its name: up to 255 as it is, beyond that as it is addressed.
fn written(lun: u64) -> String {
    if lun < 256 {
        return lun.to_string();
    }
    format!("0x{:016x}", u64::from_be_bytes(encode_lun(lun)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_named_as_udev_does() {
        assert_eq!(written(255), "255");
        assert_eq!(written(256), "0x4100000000000000");
    }
}
