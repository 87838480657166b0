//! Tools, and disks to put a state directory on.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

pub use devcluster::isolated;
use stowage_host::loopdev::{LoopDevice, LoopOptions, Loops};

pub const MIB: u64 = 1 << 20;

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
