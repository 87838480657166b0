//! A process of its own for each test, and what tests mount in it.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount};
use stowage_csi::host::exec::HostExec;
use stowage_csi::host::loopdev::{LoopDevice, LoopOptions, Loops};
use stowage_csi::host::mount::{Bind, BindSource, FsMount, HostMounter};
use stowage_csi::host::stat::Stats;

/// The directory of a test, told to the process it runs in.
const DIRECTORY: &str = "STOWAGE_TEST_DIRECTORY";

/// Declares tests that run in a process with mounts of their own; each is given an empty directory.
macro_rules! isolated {
    ($($(#[$attribute:meta])* async fn $name:ident($directory:ident: &Path) $body:block)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            $crate::support::run_isolated(concat!(module_path!(), "::", stringify!($name)), async |$directory: &Path| $body);
        }
    )*};
}
pub(crate) use isolated;

pub fn run_isolated(path: &str, body: impl AsyncFnOnce(&Path)) {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(body(Path::new(&directory)));
        // A thread that hangs in the kernel, as some tests want it, must not keep the process.
        runtime.shutdown_timeout(Duration::from_secs(1));
        return;
    }
    assert!(
        rustix::process::geteuid().is_root(),
        "these tests mount: run them as root"
    );
    let (_, name) = path.split_once("::").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args([
            "--kill-after=5",
            "120",
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "--",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory.path().canonicalize().unwrap())
        .output()
        .unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{said}");
    let left = detach_all(directory.path());
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{name} failed, see above"
    );
    assert_eq!(left, 0, "{name} left loop devices behind");
}

/// Detaches the loop devices of all files in a directory; a test that was killed could not. Tells how many there were
/// that did not go by themselves: a parallel test may have looked at one that was being closed.
fn detach_all(directory: &Path) -> usize {
    let loops = Loops::default();
    let find = || -> Vec<LoopDevice> {
        let paths = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let files = paths
            .filter(|path| path.is_file())
            .map(|path| File::open(path).unwrap());
        files.flat_map(|file| loops.find(&file).unwrap()).collect()
    };
    for _ in 0..50 {
        if find().is_empty() {
            return 0;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let left = find();
    let found = left.len();
    for device in left {
        device.detach(&loops).unwrap();
    }
    found
}

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
