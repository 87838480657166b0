//! Loop devices for disks, with links to them.
//!
//! A loop device outlives the process that made it while somebody uses it, and is let go of with its last user. Each is
//! written down with the number of its file, which nobody had before, and the next process on this socket lets go of those
//! that it finds.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustix::fs::OFlags;
use stowage_host::loopdev::{BackingFile, LoopDevice, LoopError, LoopOptions, Loops};

use super::HostOptions;
use super::disk::Disk;
use super::disks::Disks;

/// Makes loop devices for disks.
pub struct Devices {
    disks: Disks,
    loops: Loops,
    written_down: PathBuf,
}

/// A disk that has a loop device.
pub struct Device {
    file: u64,
    link: PathBuf,
    // Held so that it is there without another user.
    node: LoopDevice,
}

impl Device {
    /// Its name in `/dev`.
    pub fn name(&self) -> String {
        format!("loop{}", self.node.number())
    }
}

impl Devices {
    /// Lets go of what a process before left, and begins with nothing.
    pub fn start(options: &HostOptions) -> io::Result<Self> {
        let devices = Self {
            disks: Disks::start(&options.label)?,
            loops: Loops::default(),
            written_down: options.socket.with_extension("loops"),
        };
        fs::create_dir_all(&devices.written_down)?;
        for entry in fs::read_dir(&devices.written_down)? {
            let path = entry?.path();
            if let Some((device, backing, link)) = read(&path) {
                match devices.loops.at(device, backing) {
                    Ok(found) => found.into_iter().for_each(|it| devices.detach(it)),
                    // Somebody has it open, and it goes with them.
                    Err(error) => tracing::warn!(%error, device, "A loop device stays."),
                }
                let _ = fs::remove_file(link);
            }
            fs::remove_file(path)?;
        }
        Ok(devices)
    }

    /// Makes a loop device for a disk, and a link to it.
    pub fn add(&self, disk: Arc<Disk>, read_only: bool, link: PathBuf) -> io::Result<Device> {
        let (file, opened) = self.disks.add(disk, read_only)?;
        let options = LoopOptions {
            read_only,
            autoclear: true,
            direct_io: false,
        };
        let node = self.loops.attach(&opened, options).map_err(other)?;
        // Not held: a process that is killed would wait for its own answer to the close of it.
        drop(opened);
        let made = Device { file, link, node };
        self.write_down(&made)?;
        let _ = fs::remove_file(&made.link);
        symlink(made.node.path(), &made.link)?;
        Ok(made)
    }

    /// Lets the kernel see how large a disk is now.
    pub fn refresh(&self, device: &Device) -> io::Result<()> {
        if let Some(disk) = self.disks.get(device.file) {
            disk.rescan()?;
        }
        self.disks.refresh(device.file)?;
        device.node.refresh_size().map_err(other)
    }

    /// Whether somebody has mounted it, or has made a device of it.
    pub fn is_used(&self, device: &Device) -> bool {
        let mut alone = OpenOptions::new();
        alone
            .read(true)
            .custom_flags(OFlags::EXCL.bits().cast_signed());
        alone.open(device.node.path()).is_err() || !self.above(&device.node).is_empty()
    }

    /// Takes a device away as the kernel does: what was written to it last goes to its disk first.
    pub fn let_go(&self, device: Device) {
        for device in self.above(&device.node).iter().chain([&device.node]) {
            let written = File::open(device.path()).and_then(|node| node.sync_all());
            if let Err(error) = written {
                tracing::warn!(%error, device = %device.path().display(), "A device goes before everything is written.");
            }
        }
        self.remove(device);
    }

    /// Takes a device away, with what was not written out, as when a machine stops.
    pub fn remove(&self, device: Device) {
        let number = device.node.number();
        let _ = fs::remove_file(&device.link);
        self.detach(device.node);
        self.disks.remove(device.file);
        let _ = fs::remove_file(self.written_down.join(number.to_string()));
    }

    /// The devices that stand on a device: a kubelet makes one of its own for every raw disk.
    fn above(&self, device: &LoopDevice) -> Vec<LoopDevice> {
        let node = File::open(device.path()).map_err(LoopError::Backing);
        let found = node.and_then(|node| self.loops.find(&node));
        found.unwrap_or_default()
    }

    /// Takes a device away, and those that stand on it: they would keep it. What is to be written was: its array may be gone by now.
    fn detach(&self, device: LoopDevice) {
        for device in self.above(&device).into_iter().chain([device]) {
            let number = device.number();
            if let Err(error) = device.detach(&self.loops) {
                tracing::warn!(%error, number, "A loop device stays.");
            }
        }
    }

    fn write_down(&self, made: &Device) -> io::Result<()> {
        let BackingFile { device, inode } = made.node.backing();
        let text = format!("{device} {inode} {}", made.link.display());
        let name = made.node.number().to_string();
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
