//! The node's part of the driver in a process beside the test: it has the same mounts, and can be killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Parser as _;
use stowage_csi::metrics::ServerMetrics;
use stowage_service::{Health, Metrics, Process, Tasks};
use stowage_sim::vpsa::host::SOCKET_VARIABLE;
use stowage_vpsa::run;
use tokio_util::sync::CancellationToken;

use crate::driver::{rig, tools};

/// The process; it is killed when this goes.
pub struct NodeProcess(Child);

impl NodeProcess {
    /// Starts this program again as the driver with these flags.
    #[expect(clippy::disallowed_methods, reason = "it runs until it is killed")]
    pub fn start(directory: &Path, flags: &[String]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(tools::STAND_IN)
            .env(tools::TOOL, tools::DRIVER)
            .env(tools::ARGUMENTS, flags.join("\n"))
            .env(SOCKET_VARIABLE, directory.join(tools::SOCKET))
            // What a test prints is read by whoever started it.
            .stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Is the driver until somebody kills it.
pub fn serve(flags: Vec<String>) -> ! {
    stowage_service::client::install_crypto_provider();
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
    let args = rig::Command::parse_from(flags).args;
    let shutdown = CancellationToken::new();
    let process = Process {
        health: Health::default(),
        metrics: Metrics::new(),
        tasks: Tasks::new(shutdown.clone()),
        shutdown,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let grace = Duration::from_secs(5);
    let ended = runtime.block_on(run(args, process, ServerMetrics::default(), grace));
    panic!("the driver ended by itself: {ended:?}");
}
