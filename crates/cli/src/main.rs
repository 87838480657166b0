//! The `stowage` binary: every role of the product is a subcommand.
//!
//! - [`args`]: what can be typed, and the help text.
//! - [`crds`]: prints custom resource definitions.
//! - [`status`]: draws CSI drivers x nodes of a cluster.
//! - [`cluster`]: how the commands for a person's shell reach a cluster, and what they say if they cannot.
//! - [`output`]: the only place that writes to the terminal.

mod args;
mod cluster;
mod crds;
mod output;
mod status;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

/// Exit codes: 0 done, 1 failed with a sentence on stderr, 2 wrong usage (clap's own).
fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Crds(args) => output::print(&crds::render(&args)?),
        Command::Status(args) => {
            // Several TLS providers may be linked in; the process has to choose one before the first
            // connection. An error only says that the choice was made already.
            _ = rustls::crypto::ring::default_provider().install_default();
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?
                .block_on(status::run(&args))
        }
    }
}
