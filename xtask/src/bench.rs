//! `./x bench`: builds what is measured, in release form, and what measures it, and hands over to the latter.

use anyhow::bail;
use devcluster::report::Report;

use crate::{test, workspace};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// What to measure: `driver`, `operator`, `sidecar` or `weka`; then its options (`./x bench weka --help`).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<String>,
}

pub fn run(options: &Options, report: &Report) -> anyhow::Result<()> {
    let tools = workspace::build_bench_tools(report)?;
    let only_help = options
        .arguments
        .iter()
        .any(|argument| ["--help", "-h"].contains(&argument.as_str()));
    // It takes minutes, and whoever reads does not measure.
    if !only_help {
        workspace::build_release(&["stowage"], report)?;
    }
    // The benchmark ends by an interrupt and cleans up; this process waits for it.
    test::ignore_interrupts()?;
    let status = std::process::Command::new(tools.join("stowage-bench"))
        .arg("--stowage")
        .arg(workspace::target().join("release/stowage"))
        .arg("--memory-driver")
        .arg(tools.join("stowage-memory-driver"))
        .arg("--simulator")
        .arg(tools.join("stowage"))
        .args(&options.arguments)
        .status()?;
    if !status.success() {
        bail!("the benchmark ended with {status}");
    }
    Ok(())
}
