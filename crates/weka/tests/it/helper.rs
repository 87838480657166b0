//! `mount.wekafs` and `mount.nfs` on this machine, for the mounts of one test only.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use stowage_sim::nfs::host::SOCKET_VARIABLE;
use stowage_sim::nfs::tool::mount_nfs;
use stowage_sim::weka::mount_helper::{self, SOCKETS_VARIABLE, run};
use stowage_sim::{mounting, selinux};

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
    let directory = Path::new(&sockets).parent().unwrap();
    wait_while_held(directory, Moment::Before);
    let request = mount_helper::parse(arguments.map(Into::into));
    if let Err(error) = request.and_then(|request| run(&request, Path::new(&sockets))) {
        eprintln!("mount.wekafs: {error}");
        std::process::exit(32);
    }
    wait_while_held(directory, Moment::After);
}

/// Not a test: the same for `mount -t nfs`.
#[test]
fn nfs_helper() {
    let (Ok(arguments), Some(socket)) =
        (std::env::var(ARGUMENTS), std::env::var_os(SOCKET_VARIABLE))
    else {
        return;
    };
    let arguments = arguments.lines().filter(|line| !line.is_empty());
    if let Err(error) = mount_nfs(arguments.map(Into::into), Path::new(&socket)) {
        eprintln!("{error}");
        std::process::exit(32);
    }
}

/// When a mount can be held.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    Before,
    After,
}

impl Moment {
    fn file(self, directory: &Path) -> PathBuf {
        directory.join(format!("hold-{self:?}"))
    }
}

fn wait_while_held(directory: &Path, moment: Moment) {
    let hold = moment.file(directory);
    if hold.exists() {
        std::fs::write(directory.join("held"), std::process::id().to_string()).unwrap();
        while hold.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The next mount stops at this moment.
pub fn hold(directory: &Path, moment: Moment) {
    std::fs::write(moment.file(directory), "").unwrap();
}

/// Whether a mount has stopped.
pub fn is_held(directory: &Path) -> bool {
    std::fs::read_to_string(directory.join("held")).is_ok_and(|pid| !pid.is_empty())
}

/// Kills the helper that was held, as the end of a container does.
pub fn kill(directory: &Path, moment: Moment) {
    let held = directory.join("held");
    let pid = std::fs::read_to_string(&held).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    std::fs::remove_file(held).unwrap();
    std::fs::remove_file(moment.file(directory)).unwrap();
}

/// Makes this program the helpers. The test has mounts of its own, so nobody else sees them.
pub fn install(directory: &Path) {
    let script = |variable: &str, place: &str, test: &str| {
        format!(
            "#!/bin/sh\n{variable}={} {ARGUMENTS}=$(printf '%s\\n' \"$@\") exec {} --exact helper::{test} --nocapture\n",
            directory.join(place).display(),
            std::env::current_exe().unwrap().display(),
        )
    };
    let wekafs = script(SOCKETS_VARIABLE, "sockets", "mount_helper");
    let nfs = script(SOCKET_VARIABLE, "nfs.sock", "nfs_helper");
    let scripts = [("mount.wekafs", wekafs.as_str()), ("mount.nfs", &nfs)];
    mounting::install(&directory.join("sbin"), &scripts).unwrap();
}

/// Lets this machine mount as one with SELinux does.
pub fn install_selinux(directory: &Path) {
    let scripts = [("mount", selinux::MOUNT)];
    mounting::install(&directory.join("sbin-of-selinux"), &scripts).unwrap();
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
