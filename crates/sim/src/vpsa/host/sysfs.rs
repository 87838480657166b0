//! What the kernel shows of sessions and their disks under `/sys`, as far as drivers look there:
//! `class/iscsi_session/session<n>/{targetname,device/target<n>:0:0/<n>:0:0:<lun>/block/<device>/dev}`.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::iscsi::pdu::encode_lun;

/// The directory that stands in for `/sys`; without one nothing is shown.
#[derive(Clone, Debug)]
pub struct Sysfs(Option<PathBuf>);

impl Sysfs {
    /// Begins with nothing, whatever a process before left.
    pub fn start(directory: Option<&Path>) -> io::Result<Self> {
        let shown = Self(directory.map(Path::to_owned));
        if let Some(sessions) = shown.sessions() {
            let _ = fs::remove_dir_all(&sessions);
            fs::create_dir_all(sessions)?;
        }
        Ok(shown)
    }

    /// Shows a session. Called twice: it is shown.
    pub fn add(&self, session: u32, target: &str) -> io::Result<()> {
        let Some(place) = self.session(session) else {
            return Ok(());
        };
        fs::create_dir_all(place.join("device"))?;
        fs::write(place.join("targetname"), format!("{target}\n"))
    }

    /// Shows it no more, with all its disks. Called twice: it is not shown.
    pub fn remove(&self, session: u32) {
        if let Some(place) = self.session(session) {
            let _ = fs::remove_dir_all(place);
        }
    }

    /// Shows a disk, whose device has this name.
    pub fn add_disk(&self, session: u32, lun: u64, device: &str) -> io::Result<()> {
        let Some(place) = self.disk(session, lun) else {
            return Ok(());
        };
        let block = place.join("block").join(device);
        fs::create_dir_all(&block)?;
        let number = fs::metadata(Path::new("/dev").join(device))?.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        fs::write(block.join("dev"), format!("{major}:{minor}\n"))
    }

    /// Shows it no more. Called twice: it is not shown.
    pub fn remove_disk(&self, session: u32, lun: u64) {
        if let Some(place) = self.disk(session, lun) {
            let _ = fs::remove_dir_all(place);
        }
    }

    fn sessions(&self) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join("class/iscsi_session"))
    }

    fn session(&self, session: u32) -> Option<PathBuf> {
        Some(self.sessions()?.join(format!("session{session}")))
    }

    fn disk(&self, session: u32, lun: u64) -> Option<PathBuf> {
        // As the kernel numbers it: the first 16 bits of its address.
        let [high, low, ..] = encode_lun(lun);
        let number = u16::from_be_bytes([high, low]);
        let target = self.session(session)?.join("device");
        let target = target.join(format!("target{session}:0:0"));
        Some(target.join(format!("{session}:0:0:{number}")))
    }
}
