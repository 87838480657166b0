//! Runs a migration: lines on standard output, the truth in the exit code.

use std::process::ExitCode;

use anyhow::Context as _;
use stowage_service::{client, stop_on_signal};
use tokio_util::sync::CancellationToken;

use crate::args::{Migrate, WekaLegacyArgs};
use crate::output;

/// Runs a migration to its end, or to the first signal.
pub async fn run(command: Migrate) -> anyhow::Result<ExitCode> {
    match command {
        Migrate::WekaLegacy(args) => weka_legacy(*args).await,
    }
}

async fn weka_legacy(args: WekaLegacyArgs) -> anyhow::Result<ExitCode> {
    client::install_crypto_provider();
    let stop = CancellationToken::new();
    stop_on_signal(&stop).context("cannot listen for signals")?;
    let environment = |name: &str| std::env::var(name).ok();
    // The migration goes on where nobody reads what it says.
    let print = |line: String| drop(output::print(&format!("{line}\n")));
    let complete = stowage_weka::migrate::migrate(&args.migrate, &environment, &print, &stop);
    Ok(if complete.await? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
