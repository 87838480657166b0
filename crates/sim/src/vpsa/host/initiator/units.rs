//! The disks of sessions, as loop devices with links to them.
//!
//! A loop device outlives the process that made it while somebody uses it, and is let go of with its last user. Each is
//! written down with the number of its file, which nobody had before, and the next process on this socket lets go of those
//! that it finds.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use stowage_host::loopdev::{BackingFile, LoopDevice, LoopError, LoopOptions, Loops};

use crate::vpsa::host::HostOptions;
use crate::vpsa::host::command::Place;
use crate::vpsa::host::disk::{Disk, Link};
use crate::vpsa::host::disks::Disks;

/// The disks of one session, by their numbers.
pub type Found = BTreeMap<u64, Unit>;

/// A disk that has a loop device.
pub struct Unit {
    wwid: String,
    file: u64,
    // Held so that it is there without another user.
    device: LoopDevice,
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
    pub fn start(options: &HostOptions) -> io::Result<Self> {
        let units = Self {
            disks: Disks::start(&options.label)?,
            loops: Loops::default(),
            by_path: options.by_path.clone(),
            written_down: options.socket.with_extension("loops"),
        };
        fs::create_dir_all(&units.by_path)?;
        fs::create_dir_all(&units.written_down)?;
        for entry in fs::read_dir(&units.written_down)? {
            let path = entry?.path();
            if let Some((device, backing, link)) = read(&path) {
                match units.loops.at(device, backing) {
                    Ok(found) => found.into_iter().for_each(|it| units.detach(it)),
                    // Somebody has it open, and it goes with them.
                    Err(error) => tracing::warn!(%error, device, "A loop device stays."),
                }
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
            autoclear: true,
            direct_io: false,
        };
        let device = self.loops.attach(&opened, options).map_err(other)?;
        // Not held: a process that is killed would wait for its own answer to the close of it.
        drop(opened);
        let unit = Unit { wwid, file, device };
        let path = self.link(place, lun);
        self.write_down(&unit, &path)?;
        let _ = fs::remove_file(&path);
        symlink(unit.device.path(), path)?;
        Ok(unit)
    }

    fn refresh(&self, unit: &Unit) -> io::Result<()> {
        if let Some(disk) = self.disks.get(unit.file) {
            disk.rescan()?;
        }
        self.disks.refresh(unit.file)?;
        unit.device.refresh_size().map_err(other)
    }

    fn remove(&self, place: &Place, lun: u64, unit: Option<Unit>) {
        let Some(unit) = unit else {
            return;
        };
        let number = unit.device.number();
        let _ = fs::remove_file(self.link(place, lun));
        self.detach(unit.device);
        self.disks.remove(unit.file);
        let _ = fs::remove_file(self.written_down.join(number.to_string()));
    }

    /// Takes a disk away, and the devices that stand on it: a kubelet makes one of its own for every raw disk, which would
    /// keep this one.
    fn detach(&self, device: LoopDevice) {
        let above = File::open(device.path()).map_err(LoopError::Backing);
        let above = above.and_then(|node| self.loops.find(&node));
        for device in above.unwrap_or_default().into_iter().chain([device]) {
            let number = device.number();
            if let Err(error) = device.detach(&self.loops) {
                tracing::warn!(%error, number, "A loop device stays.");
            }
        }
    }

    /// As udev names it.
    fn link(&self, place: &Place, lun: u64) -> PathBuf {
        let (ip, port, target) = (place.portal.ip(), place.portal.port(), &place.target);
        self.by_path
            .join(format!("ip-{ip}:{port}-iscsi-{target}-lun-{lun}"))
    }

    fn write_down(&self, unit: &Unit, link: &Path) -> io::Result<()> {
        let BackingFile { device, inode } = unit.device.backing();
        let text = format!("{device} {inode} {}", link.display());
        let name = unit.device.number().to_string();
        fs::write(self.written_down.join(name), text)
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
