//! Disks come to this node: sessions, paths, maps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stowage_api::vpsa::IscsiStatus;
use stowage_host::mountinfo::Mount;
use tokio::time::{Instant, sleep};

use super::NodeServices;
use super::disk::{Disk, DiskError, is_on_disk};
use super::iscsi::Paths;
use super::stage::device_at;
use crate::driver::error::Error;
use crate::driver::publication::Iscsi;
use crate::vsc::cipher::{CHAP_FIELD, Place};

/// How long a disk may take to show up once it is attached.
const DISCOVERY: Duration = Duration::from_secs(30);

/// How long the device for several paths may take to show up; then one path has to do.
const JOINING: Duration = Duration::from_secs(10);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);

impl NodeServices {
    /// Logs in where that is needed, and returns the device of the disk that is, or is to be, staged there; `initiator` is whom it
    /// is attached to. Called twice: it is there.
    pub(super) async fn connect(
        &self,
        disk: &Iscsi,
        initiator: Option<&str>,
        staging: &Path,
    ) -> Result<PathBuf, Error> {
        let place = Place {
            object: &disk.array,
            field: CHAP_FIELD,
        };
        let secret = self.cipher.read(&disk.chap_secret, place)?.secret();
        self.forget_other(disk).await?;
        let paths = self.paths(disk).await;
        let sessions = self.initiator.log_in(disk, &secret, paths).await?;
        if let Some(name) = initiator {
            self.initiator.check_name(&disk.target, name).await?;
        }
        self.initiator.rescan(&disk.target).await?;
        let start = Instant::now();
        loop {
            let found = self.disk(disk).await?;
            let linked = found.as_ref().filter(|disk| disk.is_linked);
            if let Some((disk, device)) = usable(linked, sessions, start.elapsed()) {
                self.check_unused(disk, staging).await?;
                return Ok(device.to_owned());
            }
            if start.elapsed() >= DISCOVERY {
                found.map_or(Ok(()), |disk| self.places.check_linked(&disk))?;
                return Err(Error::NoDisk {
                    target: disk.target.clone(),
                    lun: disk.lun,
                    seconds: DISCOVERY.as_secs(),
                });
            }
            sleep(LOOK).await;
        }
    }

    /// A disk that is mounted, and not where this volume is staged, belongs to somebody else, whatever its number says. Once it
    /// is staged its pods have it mounted as well.
    async fn check_unused(&self, disk: &Disk, staging: &Path) -> Result<(), Error> {
        let view = self.mounter.look(staging).await?;
        let own = [device_at(&view.point), view.point];
        let table = &view.table;
        let mounts: Vec<Mount<'_>> = table.iter().filter(|mount| disk.is_at(mount)).collect();
        if mounts
            .iter()
            .any(|mount| own.contains(&mount.point().to_owned()))
        {
            return Ok(());
        }
        match mounts.first() {
            None if self.is_claimed(disk).await? => Err(held_unseen(disk)),
            None => Ok(()),
            Some(mount) => Err(Error::Precondition(format!(
                "disk {} of {} is mounted at {} and not where this volume is staged, so it is taken for another volume's and left alone",
                disk.lun,
                disk.target,
                mount.point().display()
            ))),
        }
    }

    /// By how many paths an array can be used.
    async fn paths(&self, disk: &Iscsi) -> Paths {
        if disk.portals.len() < 2 {
            return Paths::All;
        }
        if self.multipath.runs().await {
            return Paths::All;
        }
        tracing::warn!(
            vpsa = disk.array,
            portals = disk.portals.len(),
            "The VPSA has several portals, and multipathd does not run on this node: one path is used."
        );
        Paths::One
    }

    /// A disk of the same number that nobody uses may be another one, which the array does not have any more: the kernel
    /// would keep its size and its name.
    async fn forget_other(&self, wanted: &Iscsi) -> Result<(), Error> {
        let Some(disk) = self.disk(wanted).await? else {
            return Ok(());
        };
        if !self.is_used(&disk).await? {
            self.forget(&disk).await?;
        }
        Ok(())
    }

    /// Whether somebody uses a disk. Our table of mounts does not have those of other namespaces, nor what the host has made
    /// of a disk by itself (LVM, md): the kernel knows who has claimed it. Raw disks are claimed by nobody, but bound by us.
    pub(super) async fn is_used(&self, disk: &Disk) -> Result<bool, Error> {
        Ok(disk.is_used(&*self.mounter.table().await?) || self.is_claimed(disk).await?)
    }

    pub(super) async fn is_claimed(&self, disk: &Disk) -> Result<bool, Error> {
        for device in disk.topmost() {
            if self.stats.is_claimed(&device.path).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn disk(&self, wanted: &Iscsi) -> Result<Option<Disk>, Error> {
        let disks = self.disks(Some(&wanted.target)).await?;
        Ok(disks.into_iter().find(|it| it.lun == wanted.lun))
    }

    /// The disks of a target, or of all, as far as this node knows them. An error if nobody can say.
    pub(super) async fn disks(&self, target: Option<&str>) -> Result<Vec<Disk>, DiskError> {
        let disks = self.places.disks(target).await?;
        Ok(self.multipath.with_maps(disks).await)
    }

    /// The disk that is mounted or shown at a path, if it is one of an array.
    pub(super) async fn disk_at(&self, path: &Path) -> Result<Option<Disk>, Error> {
        let view = self.mounter.look(path).await?;
        let Some(mount) = view.mount() else {
            return Ok(None);
        };
        if !is_on_disk(&mount) {
            return Ok(None);
        }
        let mut disks = self.disks(None).await?.into_iter();
        Ok(disks.find(|disk| disk.is_at(&mount)))
    }

    /// Tells the cluster whether there is a session; only people look at it.
    pub(super) async fn say(&self, volume: &str, status: IscsiStatus) {
        self.registration.say(volume, status).await;
    }
}

/// Why a disk is left alone that is mounted nowhere as far as we see.
pub(super) fn held_unseen(disk: &Disk) -> Error {
    let device = disk.device().map(|device| device.path.display());
    Error::Precondition(format!(
        "disk {} of {} ({}) is in use by something that the driver does not see: look on the node for mounts of other containers, \
         LVM (`lvs`) and md (`/proc/mdstat`) that have it, and let them go of it",
        disk.lun,
        disk.target,
        device.map(|it| it.to_string()).unwrap_or_default()
    ))
}

/// The device by which a disk is to be used, as far as it is known after this time. Several sessions are several paths, which
/// do not show up at the same moment.
fn usable(disk: Option<&Disk>, sessions: usize, after: Duration) -> Option<(&Disk, &Path)> {
    let disk = disk?;
    if disk.map.is_none() && (sessions > 1 || disk.may_have_map()) {
        if after < JOINING {
            return None;
        }
        tracing::warn!(
            target = disk.target,
            lun = disk.lun,
            "multipathd has made no map for a disk with several paths, so one path is used: is it excluded in multipath.conf?"
        );
    }
    disk.device().map(|device| (disk, device.path.as_path()))
}

#[cfg(test)]
mod tests {
    use super::super::disk::{Device, Map};
    use super::*;

    #[test]
    fn several_paths_are_waited_for_until_they_are_joined_and_not_for_ever() {
        let device = |path: &str| Device {
            path: path.into(),
            number: None,
        };
        let disk = |paths: &[&str], map: Option<&str>| Disk {
            target: "iqn.a".to_owned(),
            lun: 0,
            paths: paths.iter().map(|path| device(path)).collect(),
            held: false,
            map: map.map(|path| Map {
                name: "m".to_owned(),
                device: device(path),
                working: 1,
            }),
            is_linked: true,
        };
        let (one, two) = (&["/dev/sda"][..], &["/dev/sda", "/dev/sdb"][..]);
        for (disk, sessions, after, expected) in [
            (None, 1, DISCOVERY, None),
            (Some(disk(one, None)), 1, Duration::ZERO, Some("/dev/sda")),
            (Some(disk(one, None)), 2, Duration::ZERO, None),
            (Some(disk(two, None)), 2, Duration::ZERO, None),
            (Some(disk(two, None)), 2, JOINING, Some("/dev/sda")),
            (
                Some(disk(two, Some("/dev/dm-0"))),
                2,
                LOOK,
                Some("/dev/dm-0"),
            ),
        ] {
            let found = usable(disk.as_ref(), sessions, after).map(|(_, device)| device);
            assert_eq!(found, expected.map(Path::new), "{disk:?} after {after:?}");
        }
    }
}
