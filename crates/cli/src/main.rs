//! The `stowage` binary: every role of the product is a subcommand.
//!
//! - [`args`]: what can be typed, and the help text.
//! - `conformance`: checks a CSI driver.
//! - [`crds`]: prints custom resource definitions.
//! - [`driver`]: runs a CSI driver.
//! - [`migrate`]: brings volumes of an earlier installation up to date.
//! - [`operator`]: runs the operator; `original` reads the command line of the one it replaces.
//! - [`setup`]: definitions and drivers of a release, for the hooks of the charts.
//! - [`sidecar`]: runs the sidecar of a CSI driver.
//! - `sim`: runs a simulated array.
//! - [`snapshot_controller`]: runs the cluster-wide half of snapshots.
//! - [`status`]: draws CSI drivers x nodes of a cluster.
//! - [`takeover`]: says what becomes of an installation of another driver.
//! - [`cluster`]: how the commands for a person's shell reach a cluster, and what they say if they cannot.
//! - [`layout`]: columns and lines.
//! - [`output`]: the only place that writes to the terminal.

mod args;
mod cluster;
mod crds;
mod driver;
mod layout;
mod migrate;
mod operator;
mod original;
mod output;
mod setup;
mod sidecar;
#[cfg(feature = "sim")]
mod sim;
mod snapshot_controller;
mod status;
mod takeover;

use std::process::ExitCode;
use std::{env, io};

use clap::Parser;
use stowage_service::{arenas, client};
use tokio::runtime::{Builder, Runtime};

use crate::args::{Args, Command, Driver, Sidecar, Takeover};

/// Daemons wait for the kernel, for tools, for an array or for the API server, not for processors. Decoding long lists keeps two threads
/// busy at times; more would cost memory.
const THREADS: usize = 2;

/// Exit codes: 0 done, 1 failed with a sentence on stderr, 2 wrong usage (clap's own); more where a command's help says so.
fn main() -> ExitCode {
    #[cfg(feature = "sim")]
    if let Some(code) = sim::as_tool(env::args_os()) {
        return code;
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
            return Ok(one_thread()?.block_on(stowage_conformance::run(&args)));
        }
        Command::Crds(args) => output::print(&crds::render(&args)?),
        Command::Driver(Driver::Hostpath(args)) => serve(driver::hostpath(*args)),
        Command::Driver(Driver::Vpsa(args)) => serve(driver::vpsa(*args)),
        Command::Driver(Driver::Weka(args)) => serve(driver::weka(*args)),
        Command::Migrate(command) => return one_thread()?.block_on(migrate::run(command)),
        Command::Operator(args) => serve(operator::run(*args)),
        Command::Setup(command) => {
            client::install_crypto_provider();
            one_thread()?.block_on(setup::run(command))
        }
        Command::Sidecar(Sidecar::Controller(args)) => serve(sidecar::controller(*args)),
        Command::Sidecar(Sidecar::Node(args)) => {
            arenas::limit();
            // It mostly sleeps, and is there once per node.
            one_thread()?.block_on(sidecar::node(*args))
        }
        #[cfg(feature = "sim")]
        Command::Sim(sim) => return sim::run(sim),
        Command::SnapshotController(args) => serve(snapshot_controller::run(*args)),
        Command::Status(args) => {
            client::install_crypto_provider();
            one_thread()?.block_on(status::run(&args))
        }
        Command::Takeover(Takeover::Weka(args)) => {
            client::install_crypto_provider();
            return one_thread()?.block_on(takeover::weka(*args));
        }
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Runs a daemon to its end.
fn serve(daemon: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    // Before the first thread.
    arenas::limit();
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(daemon)
}

fn one_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
