//! `./x bench`: builds what is measured, in release form, and what measures it, and hands over to the latter.

mod footprint;

use std::process::Command;

use anyhow::bail;
use devcluster::debian;
use devcluster::report::Report;

use crate::workspace::{self, ignore_interrupts};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// What to measure: `drain`, `driver`, `footprint`, `operator`, `sidecar`, `vpsa`, `weka` or `weka-operator`; then its options (`./x bench weka --help`).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<String>,
}

impl Options {
    fn has(&self, any_of: &[&str]) -> bool {
        let arguments = self.arguments.iter();
        arguments.map(String::as_str).any(|it| any_of.contains(&it))
    }
}

pub fn run(options: &Options, report: &Report) -> anyhow::Result<()> {
    // It needs nodes and the image, and nothing that measures.
    if options
        .arguments
        .first()
        .is_some_and(|it| it == "footprint")
    {
        return footprint::run(report);
    }
    let tools = workspace::build_bench_tools(report)?;
    // It takes minutes, and whoever reads does not measure.
    if !options.has(&["--help", "-h"]) {
        set_up(options, report)?;
        workspace::build_release(&["stowage"], report)?;
    }
    // The benchmark ends by an interrupt and cleans up; this process waits for it.
    ignore_interrupts()?;
    let status = Command::new(tools.join("stowage-bench"))
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

/// Makes sure of what the machine must have: host tools for drivers, Kubernetes for what talks to it.
fn set_up(options: &Options, report: &Report) -> anyhow::Result<()> {
    debian::install_missing(debian::FOR_DRIVERS, report)?;
    if options.has(&["drain", "operator", "sidecar", "vpsa", "weka-operator"]) {
        workspace::ensure_servers(report)?;
    }
    Ok(())
}
