//! A process of its own for each test, and disks to put a state directory on.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use stowage_csi::host::loopdev::{LoopDevice, LoopOptions, Loops};

pub const MIB: u64 = 1 << 20;

/// The directory of a test, told to the process it runs in.
const DIRECTORY: &str = "STOWAGE_TEST_DIRECTORY";

/// Declares tests that run in a process with mounts of their own; each is given an empty directory.
macro_rules! isolated {
    ($($(#[$attribute:meta])* async fn $name:ident($directory:ident: &Path) $body:block)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            let path = concat!(module_path!(), "::", stringify!($name));
            $crate::support::run_isolated(path, async |$directory: &Path| $body);
        }
    )*};
}
pub(crate) use isolated;

pub fn run_isolated(path: &str, body: impl AsyncFnOnce(&Path)) {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let _ = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .try_init();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(body(Path::new(&directory)));
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
        .args(["--kill-after=5", "120", "unshare", "--mount"])
        .args(["--propagation", "private", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory.path().canonicalize().unwrap())
        .output()
        .unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    println!("{}", said.concat());
    let left = detach_all(directory.path());
    assert!(
        output.status.success() && said[0].contains("1 passed"),
        "{name} failed, see above"
    );
    assert_eq!(
        left,
        Vec::<PathBuf>::new(),
        "{name} left loop devices behind"
    );
}

/// Detaches the loop devices of all files below a directory; a test that failed could not.
fn detach_all(directory: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            left.extend(detach_all(&path));
        } else if kind.is_file() {
            let loops = Loops::default();
            for device in loops.find(&File::open(&path).unwrap()).unwrap() {
                left.push(path.clone());
                let _ = device.detach(&loops);
            }
        }
    }
    left
}

/// Runs a tool that must succeed.
pub fn tool(name: &str, args: &[&str]) -> String {
    let output = Command::new(name).args(args).output().unwrap();
    assert!(output.status.success(), "{name} {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A filesystem of this kind and size, mounted at the returned directory.
pub fn disk(directory: &Path, kind: &str, bytes: u64) -> PathBuf {
    let image = directory.join(format!("{kind}.disk"));
    let file = File::create_new(&image).unwrap();
    file.set_len(bytes).unwrap();
    drop(file);
    let (point, image) = (directory.join("disk"), image.to_str().unwrap().to_owned());
    fs::create_dir(&point).unwrap();
    tool(&format!("mkfs.{kind}"), &[&image]);
    mount_image(&image, &point);
    point
}

/// Mounts an image by a loop device that goes with the mount.
pub fn mount_image(image: &str, point: &Path) {
    let device = attach(Path::new(image));
    tool(
        "mount",
        &[device.path().to_str().unwrap(), point.to_str().unwrap()],
    );
}

fn attach(image: &Path) -> LoopDevice {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let options = LoopOptions {
        autoclear: true,
        ..LoopOptions::default()
    };
    Loops::default().attach(&file, options).unwrap()
}

/// A tmpfs of this size, mounted at the returned directory.
pub fn small_disk(directory: &Path, bytes: u64) -> PathBuf {
    let point = directory.join("disk");
    fs::create_dir(&point).unwrap();
    let options = format!("size={bytes}");
    tool(
        "mount",
        &[
            "-t",
            "tmpfs",
            "-o",
            &options,
            "small",
            point.to_str().unwrap(),
        ],
    );
    point
}

pub fn unmount(point: &Path) {
    tool("umount", &[point.to_str().unwrap()]);
}

/// Deterministic noise that no filesystem compresses or finds twice.
pub fn noise(bytes: usize, mut seed: u64) -> Vec<u8> {
    let mut data = Vec::with_capacity(bytes + 8);
    while data.len() < bytes {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        data.extend(seed.to_le_bytes());
    }
    data.truncate(bytes);
    data
}
