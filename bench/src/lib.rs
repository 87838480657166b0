//! Benchmarks. What is measured is a release binary in a process of its own; what it is compared with is measured in
//! the same run on the same machine. `./x bench` builds both.

#![allow(
    clippy::disallowed_methods,
    reason = "what is measured is a process of its own"
)]

mod ceiling;
mod cgroup;
mod control_plane;
mod csi;
#[cfg(test)]
mod documented;
pub mod drain;
pub mod driver;
mod latency;
mod memory;
mod operated;
pub mod operator;
mod own_mounts;
mod process;
mod requests;
mod rest;
pub mod sidecar;
pub mod table;
pub mod vpsa;
pub mod weka;
pub mod weka_operator;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Measure Stowage on this machine, beside what the machine itself can do
///
/// `./x bench` builds the binary that is shipped, which takes minutes the first time, and what measures it. Leave the machine
/// alone meanwhile. Figures are ratios to a ceiling of the same run; a missed goal is not an error.
#[derive(Parser)]
#[command(
    bin_name = "./x bench",
    subcommand_value_name = "WHAT",
    subcommand_help_heading = "What",
    disable_help_subcommand = true,
    after_help = "\
Examples:
  ./x bench weka                   the Weka driver beside a simulated array, about a minute
  ./x bench sidecar --claims 1000  the sidecar, with more to do than by default
  ./x bench weka --help            what is measured, and its options

docs/guides/bench.md says what the figures mean."
)]
pub struct Args {
    /// The release binary; `./x` gives this and the next two
    #[arg(long, value_name = "FILE", default_value = "stowage")]
    stowage: PathBuf,
    /// The driver that keeps its volumes in memory, `stowage-memory-driver` [default: built for this run]
    #[arg(long, value_name = "FILE")]
    memory_driver: Option<PathBuf>,
    /// A binary with the simulated arrays in it, which release binaries have not; for `weka`
    #[arg(long, value_name = "FILE")]
    simulator: Option<PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Drain(drain::Args),
    Driver(driver::Args),
    Operator(operator::Args),
    Sidecar(sidecar::Args),
    Vpsa(vpsa::Args),
    Weka(weka::Args),
    WekaOperator(weka_operator::Args),
}

impl Args {
    /// Measures, and prints what is found.
    pub async fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Drain(args) => drain::run(&self.stowage, &args).await.map(drop),
            What::Driver(args) => driver::run(&self.stowage, &args).await,
            What::Operator(args) => operator::run(&self.stowage, &args).await.map(drop),
            What::Sidecar(args) => {
                let driver = self.memory_driver.as_deref();
                sidecar::run(&self.stowage, driver, &args).await.map(drop)
            }
            What::Vpsa(args) => vpsa::run(&self.stowage, &args).await.map(drop),
            What::WekaOperator(args) => weka_operator::run(&self.stowage, &args).await.map(drop),
            What::Weka(args) => {
                own_mounts::ensure()?;
                let simulator = self.simulator.as_deref().unwrap_or(&self.stowage);
                weka::run(&self.stowage, simulator, &args).await.map(drop)
            }
        }
    }
}

/// Prints a line; measuring goes on when nobody reads it.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
