//! `mount.wekafs` on this machine, for the mounts of one test only.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use stowage_sim::weka::mount_helper::{Request, SOCKETS_VARIABLE, run};

/// The arguments of a mount helper, a line each.
const ARGUMENTS: &str = "STOWAGE_TEST_MOUNT_ARGUMENTS";

/// Not a test: the mount helper itself, when `mount -t wekafs` starts this program again.
#[test]
fn mount_helper() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        return;
    };
    let sockets = std::env::var(SOCKETS_VARIABLE).unwrap();
    let arguments = arguments.lines().filter(|line| !line.is_empty());
    let request = Request::parse(arguments.map(Into::into)).unwrap();
    if let Err(error) = run(&request, Path::new(&sockets)) {
        eprintln!("mount.wekafs: {error}");
        std::process::exit(32);
    }
}

/// Lays the helper over the directory where `mount` looks for it. The test has mounts of its own, so nobody else sees it.
pub fn install(directory: &Path) {
    let place = directory.join("sbin");
    std::fs::create_dir_all(&place).unwrap();
    let script = format!(
        "#!/bin/sh\n{SOCKETS_VARIABLE}={} {ARGUMENTS}=$(printf '%s\\n' \"$@\") exec {} --exact helper::mount_helper --nocapture\n",
        directory.join("sockets").display(),
        std::env::current_exe().unwrap().display(),
    );
    let helper = place.join("mount.wekafs");
    std::fs::write(&helper, script).unwrap();
    std::fs::set_permissions(&helper, PermissionsExt::from_mode(0o755)).unwrap();
    let layers = format!("lowerdir={}:/usr/sbin", place.display());
    let laid = Command::new("mount")
        .args(["-t", "overlay", "overlay", "-o", &layers, "/usr/sbin"])
        .status()
        .unwrap();
    assert!(laid.success());
}

/// Takes it away again, for a test that sets up several clusters one after the other.
pub fn remove() {
    assert!(
        Command::new("umount")
            .arg("/usr/sbin")
            .status()
            .unwrap()
            .success()
    );
}
