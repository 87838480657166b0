//! `./x bench`: builds what is measured, in release form, and what measures it, and hands over to the latter.

mod footprint;

use std::process::Command;

use anyhow::bail;
use devcluster::debian;
use devcluster::report::Report;

use crate::workspace::{self, ignore_interrupts, say};

const GUIDE: &str = include_str!("../../docs/guides/bench.md");

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Options {
    /// What to measure, then its options.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Options {
    fn has(&self, any_of: &[&str]) -> bool {
        let arguments = self.arguments.iter();
        arguments.map(String::as_str).any(|it| any_of.contains(&it))
    }
}

pub fn run(options: &Options, report: &Report) -> anyhow::Result<()> {
    match options.arguments.first().map(String::as_str) {
        // Nothing has to be built for it.
        None | Some("--help" | "-h" | "help") => {
            say(&overview(GUIDE));
            return Ok(());
        }
        // It needs nodes and the image, and nothing that measures.
        Some("footprint") => return footprint::run(report),
        Some(_) => {}
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

/// What can be measured, as the guide says it.
fn overview(guide: &str) -> String {
    let rows = guide.lines().filter_map(|line| {
        let (verb, rest) = line.strip_prefix("| `./x bench ")?.split_once("` | ")?;
        let what = rest.split(" | ").next().unwrap_or_default();
        Some(format!("  {verb:<15}{}\n", what.replace('`', "")))
    });
    format!(
        "Measure it on this machine, as ratios to what the machine itself can do\n\n\
         Usage: ./x bench WHAT [OPTIONS]\n\nWhat:\n{}\n\
         `./x bench WHAT --help` tells its options, once what measures is built: that takes minutes.\n\
         Leave the machine alone meanwhile. docs/guides/bench.md says what the figures mean, and what came out.",
        rows.collect::<String>()
    )
}

/// Makes sure of what the machine must have: host tools for drivers, Kubernetes for what talks to it.
fn set_up(options: &Options, report: &Report) -> anyhow::Result<()> {
    debian::install_missing(debian::FOR_DRIVERS, report)?;
    if options.has(&["drain", "operator", "sidecar", "vpsa", "weka-operator"]) {
        workspace::ensure_servers(report)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overview_tells_what_the_guide_tells() {
        let told = overview(GUIDE);
        for verb in ["drain", "footprint", "sidecar", "weka-operator"] {
            assert!(told.contains(&format!("\n  {verb} ")), "{told}");
        }
        assert_eq!(told.matches("\n  ").count(), 8, "{told}");
    }
}
