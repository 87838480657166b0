//! `stowage-bench`: see the library.

use anyhow::bail;
use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = stowage_bench::Args::parse();
    // What is dropped takes its processes, mounts and directories along.
    tokio::select! {
        done = args.run() => done,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted");
        }
    }
}
