//! The disks of sessions, as loop devices with links to them.
//!
//! A loop device outlives the process that made it. So each is written down with the number of its file, which nobody had
//! before, and the next process on this socket lets go of those that it finds.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stowage_host::loopdev::{BackingFile, LoopDevice, LoopError, LoopOptions, Loops};

use crate::vpsa::host::command::Place;
use crate::vpsa::host::disk::{Disk, Link};
use crate::vpsa::host::disks::Disks;

/// The disks of one session, by their numbers.
pub type Found = BTreeMap<u64, Unit>;

/// A disk that has a loop device.
pub struct Unit {
    wwid: String,
    file: u64,
    device: u32,
    backing: BackingFile,
    // Held so that its size can be refreshed.
    opened: File,
}

/// Makes loop devices for disks.
pub struct Units {
    disks: Disks,
    loops: Loops,
    by_path: PathBuf,
    written_down: PathBuf,
}

impl Units {
    /// Lets go of what a process before left, and begins with nothing.
    pub fn start(by_path: &Path, written_down: &Path) -> io::Result<Self> {
        fs::create_dir_all(by_path)?;
        fs::create_dir_all(written_down)?;
        let units = Self {
            disks: Disks::start()?,
            loops: Loops::default(),
            by_path: by_path.to_owned(),
            written_down: written_down.to_owned(),
        };
        for entry in fs::read_dir(written_down)? {
            let path = entry?.path();
            if let Some((device, backing, link)) = read(&path) {
                units.detach(device, backing);
                let _ = fs::remove_file(link);
            }
            fs::remove_file(path)?;
        }
        Ok(units)
    }

    /// Finds disks that are new, gone, larger, or others under the same number.
    pub fn scan(&self, place: &Place, link: &Arc<Link>, found: &mut Found) -> io::Result<()> {
        let luns = link.call(&async |session| session.luns().await)?;
        let gone: Vec<u64> = found
            .keys()
            .copied()
            .filter(|lun| !luns.contains(lun))
            .collect();
        for lun in gone {
            self.remove(place, lun, found.remove(&lun));
        }
        for lun in luns {
            let wwid = link.call(&async |session| session.wwid(lun).await)?;
            if found.get(&lun).is_some_and(|unit| unit.wwid != wwid) {
                self.remove(place, lun, found.remove(&lun));
            }
            match found.get(&lun) {
                Some(unit) => self.refresh(unit)?,
                None => {
                    let unit = self.add(place, link, lun, wwid)?;
                    found.insert(lun, unit);
                }
            }
        }
        Ok(())
    }

    /// Lets all disks of a session go.
    pub fn remove_all(&self, place: &Place, found: Found) {
        for (lun, unit) in found {
            self.remove(place, lun, Some(unit));
        }
    }

    fn add(&self, place: &Place, link: &Arc<Link>, lun: u64, wwid: String) -> io::Result<Unit> {
        let read_only = link.call(&async |session| session.is_read_only(lun).await)?;
        let disk = Arc::new(Disk::new(Arc::clone(link), lun)?);
        let (file, opened) = self.disks.add(disk, read_only)?;
        let options = LoopOptions {
            read_only,
            ..LoopOptions::default()
        };
        let device = self.loops.attach(&opened, options).map_err(other)?;
        let unit = Unit {
            wwid,
            file,
            device: device.number(),
            backing: device.backing(),
            opened,
        };
        let path = self.link(place, lun);
        self.write_down(&unit, &path)?;
        let _ = fs::remove_file(&path);
        symlink(device.path(), path)?;
        Ok(unit)
    }

    fn refresh(&self, unit: &Unit) -> io::Result<()> {
        if let Some(disk) = self.disks.get(unit.file) {
            disk.rescan()?;
        }
        // So that the kernel asks how large the file is.
        unit.opened.metadata()?;
        match self.loops.at(unit.device, unit.backing).map_err(other)? {
            Some(device) => device.refresh_size().map_err(other),
            None => Ok(()),
        }
    }

    fn remove(&self, place: &Place, lun: u64, unit: Option<Unit>) {
        let Some(unit) = unit else {
            return;
        };
        let _ = fs::remove_file(self.link(place, lun));
        self.detach(unit.device, unit.backing);
        self.disks.remove(unit.file);
        let _ = fs::remove_file(self.written_down.join(unit.device.to_string()));
    }

    fn detach(&self, device: u32, backing: BackingFile) {
        let detach = |device: LoopDevice| device.detach(&self.loops).map(drop);
        let found = self.loops.at(device, backing);
        if let Err(error) = found.and_then(|found| found.map_or(Ok(()), detach)) {
            tracing::warn!(%error, device, "A loop device stays.");
        }
    }

    /// As udev names it.
    fn link(&self, place: &Place, lun: u64) -> PathBuf {
        let (ip, port, target) = (place.portal.ip(), place.portal.port(), &place.target);
        self.by_path
            .join(format!("ip-{ip}:{port}-iscsi-{target}-lun-{lun}"))
    }

    fn write_down(&self, unit: &Unit, link: &Path) -> io::Result<()> {
        let BackingFile { device, inode } = unit.backing;
        let text = format!("{device} {inode} {}", link.display());
        fs::write(self.written_down.join(unit.device.to_string()), text)
    }
}

/// What was written down of a loop device.
fn read(path: &Path) -> Option<(u32, BackingFile, PathBuf)> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.splitn(3, ' ');
    let backing = BackingFile {
        device: words.next()?.parse().ok()?,
        inode: words.next()?.parse().ok()?,
    };
    Some((number, backing, PathBuf::from(words.next()?)))
}

fn other(error: LoopError) -> io::Error {
    io::Error::other(error)
}
