//! Benchmarks. What is measured is a release binary in a process of its own; what it is compared with is measured in
//! the same run on the same disk. `./x bench` builds both.

mod ceiling;
mod driver;
mod latency;
mod process;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Measure Stowage on this machine.
#[derive(Parser)]
struct Args {
    /// The release binary
    #[arg(long, value_name = "FILE")]
    stowage: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Driver(driver::Args),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.what {
        What::Driver(what) => driver::run(&args.stowage, &what).await,
    }
}

/// Prints a line; a closed pipe is no reason to stop measuring.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
