//! The node's kernel, in a process beside the test.
//!
//! It serves files on which filesystems of the test stand. When a process ends, its mounts are unmounted first, and a
//! filesystem writes then: a process that serves its own mounts would wait for itself for ever, and with it whoever looks
//! at the devices of this machine. So this one has other mounts than the test, is no part of what a signal to the test
//! ends, and goes only after the test has gone.

use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use stowage_sim::vpsa::host::SOCKET_VARIABLE;
use stowage_sim::vpsa::{Host, HostOptions};
use tokio::time::sleep;

use crate::driver::tools;

/// How long unmounts of a test that was killed may take before what they wait for fails.
const GRACE: Duration = Duration::from_secs(2);

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Arguments {
    #[command(flatten)]
    options: HostOptions,
}

/// The process, for as long as this is held.
pub struct HostProcess(Child);

impl HostProcess {
    /// Starts this program again as a node with this address; returns when it can be asked.
    #[expect(clippy::disallowed_methods, reason = "it runs for as long as the test")]
    pub async fn start(directory: &Path, ip: IpAddr, has_multipathd: bool) -> Self {
        let socket = directory.join(tools::SOCKET);
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(tools::STAND_IN)
            .env(tools::TOOL, tools::HOST)
            .env(
                tools::ARGUMENTS,
                arguments(directory, ip, has_multipathd).join("\n"),
            )
            .env(SOCKET_VARIABLE, &socket)
            .process_group(0)
            .stdin(Stdio::piped())
            // What a test prints is read by whoever started it.
            .stdout(Stdio::null());
        let mut process = Self(command.spawn().unwrap());
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(&socket).is_err() {
            let ended = process.0.try_wait().unwrap();
            assert!(ended.is_none(), "the node did not start: {ended:?}");
            assert!(Instant::now() < deadline, "the node takes too long");
            sleep(Duration::from_millis(10)).await;
        }
        process
    }
}

impl Drop for HostProcess {
    /// Says that nothing is mounted any more, and waits for its end.
    fn drop(&mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            let _ = stdin.write_all(b"\n");
        }
        let _ = self.0.wait();
    }
}

/// Is a node until the test is done with it, or has died.
pub fn serve(arguments: Vec<String>) -> ! {
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
    let options = Arguments::parse_from(arguments).options;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let host = {
        let _inside = runtime.enter();
        Host::start(&options).unwrap()
    };
    if !is_done() {
        runtime.block_on(async { sleep(GRACE).await });
    }
    drop(host);
    // Whatever still waits for an array is not waited for: what asked for it is told that nobody answers.
    std::process::exit(0);
}

/// Waits for the test; whether it said that it is done, and did not just end.
fn is_done() -> bool {
    std::io::stdin()
        .read(&mut [0])
        .is_ok_and(|length| length == 1)
}

/// What [`serve`] is told, beside its socket.
fn arguments(directory: &Path, ip: IpAddr, has_multipathd: bool) -> Vec<String> {
    let flag = |flag: &str, name: &str| format!("--{flag}={}", directory.join(name).display());
    let mut arguments = vec![
        format!("--ip={ip}"),
        flag("initiator-name", "initiatorname.iscsi"),
        flag("records", "nodes"),
        flag("by-path", "by-path"),
        flag("sysfs", "sysfs"),
    ];
    if has_multipathd {
        arguments.push(flag("mapper", "mapper"));
    }
    arguments
}
