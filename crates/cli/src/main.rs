//! The `stowage` binary: every role of the product is a subcommand.
//!
//! - [`args`]: what can be typed, and the help text.
//! - `conformance`: checks a CSI driver.
//! - [`crds`]: prints custom resource definitions.
//! - [`driver`]: runs a CSI driver.
//! - [`operator`]: runs the operator; `original` reads the command line of the one it replaces.
//! - [`sidecar`]: runs the sidecar of a CSI driver.
//! - `sim`: runs a simulated array.
//! - [`snapshot_controller`]: runs the cluster-wide half of snapshots.
//! - [`status`]: draws CSI drivers x nodes of a cluster.
//! - [`cluster`]: how the commands for a person's shell reach a cluster, and what they say if they cannot.
//! - [`output`]: the only place that writes to the terminal.

mod args;
mod cluster;
mod crds;
mod driver;
mod operator;
mod original;
mod output;
mod sidecar;
#[cfg(feature = "sim")]
mod sim;
mod snapshot_controller;
mod status;

use std::env;
use std::process::ExitCode;

use clap::Parser;

#[cfg(feature = "sim")]
use crate::args::Sim;
use crate::args::{Args, Command, Driver, Sidecar};

/// A driver waits for the kernel and for tools, not for processors: two threads keep its memory small.
const DRIVER_THREADS: usize = 2;

/// The operator waits for the API server.
const OPERATOR_THREADS: usize = 2;

/// Exit codes: 0 done, 1 failed with a sentence on stderr, 2 wrong usage (clap's own).
fn main() -> ExitCode {
    #[cfg(feature = "sim")]
    if let Some(arguments) = sim::as_mount_helper(env::args_os()) {
        return sim::mount(arguments);
    }
    match run(Args::parse_from(original::arguments(env::args_os())).command) {
        Ok(code) => code,
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Conformance(args) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            return Ok(runtime.block_on(stowage_conformance::run(&args)));
        }
        Command::Crds(args) => output::print(&crds::render(&args)?),
        Command::Driver(Driver::Hostpath(args)) => {
            stowage_service::arenas::limit();
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(DRIVER_THREADS)
                .enable_all()
                .build()?
                .block_on(driver::hostpath(args))
        }
        Command::Operator(args) => {
            stowage_service::arenas::limit();
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(OPERATOR_THREADS)
                .enable_all()
                .build()?
                .block_on(operator::run(*args))
        }
        // Decoding lists and writing volumes keeps two threads busy, and more would cost memory.
        Command::Sidecar(Sidecar::Controller(args)) => {
            stowage_service::arenas::limit();
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(DRIVER_THREADS)
                .enable_all()
                .build()?
                .block_on(sidecar::controller(*args))
        }
        // One thread: it mostly sleeps, and is there once per node.
        Command::Sidecar(Sidecar::Node(args)) => {
            stowage_service::arenas::limit();
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?
                .block_on(sidecar::node(*args))
        }
        #[cfg(feature = "sim")]
        Command::Sim(Sim::MountWekafs(args)) => return Ok(sim::mount(args.arguments)),
        #[cfg(feature = "sim")]
        Command::Sim(Sim::Weka(args)) => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(DRIVER_THREADS)
            .enable_all()
            .build()?
            .block_on(sim::weka(*args)),
        #[cfg(feature = "sim")]
        Command::Sim(Sim::WekaFrontend(args)) => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(DRIVER_THREADS)
            .enable_all()
            .build()?
            .block_on(sim::weka_frontend(*args)),
        Command::SnapshotController(args) => {
            stowage_service::arenas::limit();
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(DRIVER_THREADS)
                .enable_all()
                .build()?
                .block_on(snapshot_controller::run(*args))
        }
        Command::Status(args) => {
            stowage_service::client::install_crypto_provider();
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?
                .block_on(status::run(&args))
        }
    }
    .map(|()| ExitCode::SUCCESS)
}
