//! `stowage-bench`: see the library.

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    stowage_bench::Args::parse().run().await
}
