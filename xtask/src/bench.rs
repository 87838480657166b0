//! `./x bench`: builds what is measured and what measures it, both in release form.

use anyhow::bail;
use devcluster::report::Report;

use crate::workspace;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// What to measure: `driver`, `operator` or `sidecar`; then its options (`./x bench sidecar --help`).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<String>,
}

pub fn run(options: &Options, report: &Report) -> anyhow::Result<()> {
    workspace::build_release(&["stowage"], report)?;
    // The benchmarks use the driver in memory that comes with the second package.
    workspace::build_release(&["stowage-bench", "stowage-csi"], report)?;
    let release = workspace::target().join("release");
    let status = std::process::Command::new(release.join("stowage-bench"))
        .arg("--stowage")
        .arg(release.join("stowage"))
        .arg("--memory-driver")
        .arg(release.join("stowage-memory-driver"))
        .args(&options.arguments)
        .status()?;
    if !status.success() {
        bail!("the benchmark ended with {status}");
    }
    Ok(())
}
