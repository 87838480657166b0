//! What tests mount and attach.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use devcluster::isolated;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount};
use stowage_host::exec::HostExec;
use stowage_host::loopdev::{LoopDevice, LoopOptions, Loops};
use stowage_host::mount::{Bind, BindSource, FsMount, HostMounter};
use stowage_host::stat::Stats;

/// A loop device that is detached when the test is over.
pub struct Attached {
    pub device: Option<LoopDevice>,
    pub file: File,
    pub path: PathBuf,
}

impl Attached {
    /// A new sparse file, attached.
    pub fn new(directory: &Path, name: &str, bytes: u64) -> Self {
        let file = image(directory, name, bytes);
        Self::of(file, LoopOptions::default())
    }

    pub fn by(loops: &Loops, file: File, options: LoopOptions) -> Self {
        let device = loops.attach(&file, options).unwrap();
        Self {
            path: device.path().to_owned(),
            device: Some(device),
            file,
        }
    }

    pub fn of(file: File, options: LoopOptions) -> Self {
        Self::by(&Loops::default(), file, options)
    }

    pub fn device(&self) -> &LoopDevice {
        self.device.as_ref().unwrap()
    }

    /// Makes file and device larger.
    pub fn grow(&self, bytes: u64) {
        self.file.set_len(bytes).unwrap();
        self.device().refresh_size().unwrap();
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(device) = self.device.take() {
            let _ = device.detach(&Loops::default());
        }
    }
}

pub fn image(directory: &Path, name: &str, bytes: u64) -> File {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(directory.join(name))
        .unwrap();
    file.set_len(bytes).unwrap();
    file
}

pub const MIB: u64 = 1024 * 1024;

/// A mount that never answers, until it is dropped: from then on it answers `ENOTCONN`.
pub struct SilentFuse(OwnedFd);

impl SilentFuse {
    pub fn mount(point: &Path) -> Self {
        fs::create_dir_all(point).unwrap();
        let fuse =
            rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0\0",
            fuse.as_raw_fd()
        );
        let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).unwrap();
        mount("silent", point, "fuse", MountFlags::empty(), options).unwrap();
        Self(fuse)
    }

    /// It is polite to the kernel, which then passes on what others ask; and says no more.
    pub fn greet(&self) {
        let unique = self.next_request();
        // Length, error, whom it answers; then the protocol 7.31, and what it may ask at a time.
        let mut answer = Vec::new();
        answer.extend(80_u32.to_ne_bytes());
        answer.extend(0_u32.to_ne_bytes());
        answer.extend(unique);
        for word in [7_u32, 31, 0, 0, 0, 4096] {
            answer.extend(word.to_ne_bytes());
        }
        answer.resize(80, 0);
        assert_eq!(rustix::io::write(&self.0, &answer).unwrap(), 80);
    }

    /// Waits until somebody waits for an answer; what that has to name.
    pub fn next_request(&self) -> [u8; 8] {
        let mut request = vec![0; 1 << 16];
        let length = rustix::io::read(&self.0, &mut request).unwrap();
        assert!(length >= 40, "{length}");
        request[8..16].try_into().unwrap()
    }

    /// The daemon dies.
    pub fn die(self) {
        drop(self.0);
    }
}

pub fn stats() -> Arc<Stats> {
    Arc::new(Stats::new(Duration::from_millis(300)))
}

pub fn mounter() -> HostMounter {
    HostMounter::new(Arc::new(HostExec), stats())
}

pub fn bind(source: &Path, target: &Path) -> Bind {
    Bind {
        source: BindSource::Path(source.to_owned()),
        target: target.to_owned(),
        read_only: false,
    }
}

pub fn tmpfs(target: &Path, options: &[&str]) -> FsMount {
    filesystem("tmpfs", Path::new("a tmpfs"), target, options)
}

pub fn filesystem(kind: &str, source: &Path, target: &Path, options: &[&str]) -> FsMount {
    FsMount {
        kind: kind.to_owned(),
        source: source.into(),
        target: target.to_owned(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        timeout: Duration::from_secs(30),
    }
}

/// Makes directories and gives back their paths.
pub fn directories<const N: usize>(directory: &Path, names: [&str; N]) -> [PathBuf; N] {
    names.map(|name| {
        let path = directory.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    })
}
