//! Tests that mount and attach: each in a process with mounts of its own, so that nothing stays mounted however it
//! ends, and with an eye on the loop devices, which belong to the whole machine.

// A test that cannot go on should say where, and what the other process printed belongs into the test's own output.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use nix::unistd::geteuid;

use crate::loops::{attached_below, detach};

/// The variable that carries the directory of a test to the process it runs in.
const DIRECTORY: &str = "STOWAGE_TEST_DIRECTORY";

/// Set by `./x test` where nobody may mount: the directory for notes of what was left out.
const LEFT_OUT: &str = "STOWAGE_TEST_LEFT_OUT";

/// How long a test may take, in the words of `timeout`.
const LONGEST: &str = "300";

/// How often and how long apart it is looked whether loop devices go by themselves: a parallel test may have one open
/// for a moment, to see whose it is.
const CLOSING_ATTEMPTS: usize = 50;
const CLOSING_PAUSE: Duration = Duration::from_millis(20);

/// Declares tests that run in a process with mounts of their own; each is given an empty directory.
///
/// ```text
/// devcluster::isolated! {
///     async fn a_tmpfs_can_be_mounted(directory: &Path) {
///         // ...
///     }
/// }
/// ```
#[macro_export]
macro_rules! isolated {
    ($($(#[$attribute:meta])* async fn $name:ident($directory:ident: $path:ty) $body:block)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            let test = concat!(module_path!(), "::", stringify!($name));
            $crate::testing::isolated::run_isolated(test, async |$directory: $path| $body);
        }
    )*};
}

/// Runs the body of the test with this path, crate name first, in a process of its own: the same program is started
/// again for this test alone. Fails as the body does, or if it leaves a loop device behind.
pub fn run_isolated(test: &str, body: impl AsyncFnOnce(&Path)) {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return run_here(&directory, body);
    }
    if let Some(run) = std::env::var_os(LEFT_OUT) {
        return leave_out(Path::new(&run));
    }
    assert!(geteuid().is_root(), "these tests mount: run them as root");
    let (_, name) = test.split_once("::").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let output = run_apart(name, directory.path());
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    println!("{}", said.concat());
    // First of all: the devices of a test that was killed would stay.
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

/// `./x test` counts what is noted here as left out, not as passed.
fn leave_out(notes: &Path) {
    let variable = |name| std::env::var(name).unwrap();
    let (program, test) = (variable("NEXTEST_BINARY_ID"), variable("NEXTEST_TEST_NAME"));
    let reason = "it mounts and attaches, which needs root";
    std::fs::create_dir_all(notes).unwrap();
    let note = notes.join(format!("{program} {test}").replace("::", "-"));
    std::fs::write(note, format!("{program} {test}\n{reason}\n")).unwrap();
    println!("left out: {reason}");
}

fn run_here(directory: &OsStr, body: impl AsyncFnOnce(&Path)) {
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .try_init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(body(Path::new(directory)));
    // A thread that hangs in the kernel, as some tests want it, must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
}

fn run_apart(name: &str, directory: &Path) -> Output {
    Command::new("timeout")
        .args(["--kill-after=5", LONGEST])
        .args(["unshare", "--mount", "--propagation", "private", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory.canonicalize().unwrap())
        .output()
        .unwrap()
}

/// Detaches the loop devices of all files below a directory that do not go by themselves; returns the files.
fn detach_all(directory: &Path) -> Vec<PathBuf> {
    for _ in 0..CLOSING_ATTEMPTS {
        if attached_below(directory).unwrap().is_empty() {
            return Vec::new();
        }
        thread::sleep(CLOSING_PAUSE);
    }
    let left = attached_below(directory).unwrap();
    // What cannot be detached is reported all the same.
    for device in &left {
        drop(detach(device));
    }
    left.into_iter().map(|device| device.file).collect()
}
