//! What `./x` calls. Each verb is one module; this file only parses arguments and ends a failure with one
//! sentence and the path of the log.

#![allow(
    clippy::disallowed_methods,
    reason = "it runs cargo and kubectl, and is not async"
)]

mod bench;
mod chart;
mod check;
mod cluster;
mod demo;
#[cfg(test)]
mod documented;
mod image;
mod previous;
mod registry;
mod release;
mod soak;
mod test;
mod workspace;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use devcluster::cluster::Wanted;
use devcluster::report::Report;

use crate::image::Binary;

/// Develop and try Stowage: a real Kubernetes on this machine, our image, checks and tests.
#[derive(Parser)]
#[command(name = "./x", bin_name = "./x", max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    /// Name of the cluster: several can run side by side.
    #[arg(
        long,
        global = true,
        env = "STOWAGE_CLUSTER",
        default_value = "dev",
        value_name = "NAME"
    )]
    cluster: String,
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  ./x demo                     the quickest look: a cluster, a driver, a pod that writes to its volume
  ./x up --nodes 3             a cluster of three nodes, kept until `./x down`
  ./x kubectl get pods -A      kubectl as administrator of that cluster
  ./x node stop node-b         power a node off; `./x node start node-b` brings it back
  ./x test                     everything: format, rules, lints, unit, integration and end-to-end tests
  ./x soak --hours 8           the fault tests at full size, all night

Environment:
  KUBEBUILDER_ASSETS=DIR       run the Kubernetes binaries (1.20 to 1.36) in DIR instead of building 1.20
  STOWAGE_KUBECONFIG=FILE      `test` and `demo` use the cluster of this kubeconfig instead of making one";

#[derive(Subcommand)]
enum Verb {
    /// Bring the cluster up, or repair it; does nothing if it is up.
    Up {
        /// How many nodes: as many as it had, or 2.
        #[arg(long, value_name = "N")]
        nodes: Option<usize>,
        /// Taint with which nodes register that are new to the cluster: KEY=VALUE:EFFECT.
        #[arg(long, value_name = "TAINT")]
        taint: Option<String>,
    },
    /// Take the cluster down and leave nothing behind but the cache.
    Down,
    /// Show the cluster's processes and nodes.
    Status,
    /// Stop, cut off or start a node.
    #[command(subcommand)]
    Node(cluster::NodeVerb),
    /// Run kubectl on the cluster.
    #[command(disable_help_flag = true)]
    Kubectl {
        /// Passed on as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build our image and load it into every node.
    Image {
        /// Only write its files here, for the Dockerfile.
        #[arg(long, value_name = "DIR")]
        rootfs: Option<PathBuf>,
        /// Make the image of the simulated arrays instead, and load it into every node.
        #[arg(long, conflicts_with = "rootfs")]
        simulator: bool,
    },
    /// Check format, rules, lints and generated files.
    Check {
        /// Mend what can be mended.
        #[arg(long)]
        fix: bool,
        /// Only the files that programs write.
        #[arg(long)]
        generated: bool,
    },
    /// Run everything: checks, unit, integration and end-to-end tests.
    Test(test::Options),
    /// Show it at work: a cluster, the operator, a driver, a pod that writes to its volume.
    Demo {
        /// Which driver.
        #[arg(value_enum, default_value_t = demo::Driver::Hostpath)]
        driver: demo::Driver,
    },
    /// Measure it on this machine, as ratios to what the machine itself can do.
    Bench(bench::Options),
    /// Kill sidecar, driver, API server and leader again and again, and see that no volume is lost.
    Soak(soak::Options),
    /// Install our Helm charts where there is no Helm.
    #[command(subcommand)]
    Chart(chart::Verb),
    /// Write one file for clusters that can reach nothing: image, manifests, charts.
    Bundle {
        /// With the binary of demos and tests, which is there in a fraction of the time.
        #[arg(long)]
        quick: bool,
    },
    /// Write what people download: binary, image, bundle, charts, checksums, list of parts, licences.
    Release,
    /// Serve the image store to the nodes of a cluster.
    #[command(hide = true)]
    Registry(registry::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let verb = verb_name(&arguments.verb);
    let log = match devcluster::places::verb_log(&format!("{verb}-{}", arguments.cluster)) {
        Ok(log) => log,
        Err(error) => return fail(verb, &error.into(), None),
    };
    let report = Report::to_person(log.clone());
    match run(arguments, &report) {
        Ok(code) => code,
        Err(error) => fail(verb, &error, Some(&log)),
    }
}

fn run(arguments: Arguments, report: &Report) -> anyhow::Result<ExitCode> {
    let name = &arguments.cluster;
    match arguments.verb {
        Verb::Up { nodes, taint } => cluster::up(name, &Wanted { nodes, taint }, report)?,
        Verb::Down => cluster::down(name, report)?,
        Verb::Status => return cluster::status(name),
        Verb::Node(verb) => cluster::node(name, &verb, report)?,
        Verb::Kubectl { arguments } => return cluster::kubectl(name, &arguments),
        Verb::Image {
            simulator: true, ..
        } => image::build_and_load_simulator(name, report)?,
        Verb::Image {
            rootfs: Some(directory),
            ..
        } => image::write_rootfs(&directory, report)?,
        Verb::Image { rootfs: None, .. } => image::build_and_load(name, report)?,
        Verb::Check {
            fix,
            generated: true,
        } => check::generated::check(fix, report)?,
        Verb::Check { fix, .. } => check::run(fix, report)?,
        Verb::Test(options) => return test::run(&options, report),
        Verb::Demo { driver } => demo::run(driver, name, report)?,
        Verb::Bench(options) => bench::run(&options, report)?,
        Verb::Soak(options) => soak::run(&options, report)?,
        Verb::Chart(verb) => chart::run(&verb, name, report)?,
        Verb::Bundle { quick: true } => release::bundle(Binary::Debug, report)?,
        Verb::Bundle { quick: false } => release::bundle(Binary::Release, report)?,
        Verb::Release => release::run(report)?,
        Verb::Registry(options) => registry::run(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn verb_name(verb: &Verb) -> &'static str {
    match verb {
        Verb::Up { .. } => "up",
        Verb::Down => "down",
        Verb::Status => "status",
        Verb::Node(_) => "node",
        Verb::Kubectl { .. } => "kubectl",
        Verb::Image { .. } => "image",
        Verb::Check { .. } => "check",
        Verb::Test(_) => "test",
        Verb::Demo { .. } => "demo",
        Verb::Bench(_) => "bench",
        Verb::Soak(_) => "soak",
        Verb::Chart(_) => "chart",
        Verb::Bundle { .. } => "bundle",
        Verb::Release => "release",
        Verb::Registry(_) => "registry",
    }
}

/// One sentence, and where the rest is if there is more.
fn fail(verb: &str, error: &anyhow::Error, log: Option<&PathBuf>) -> ExitCode {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "./x {verb}: {error:#}");
    if let Some(log) = log.filter(|log| log.metadata().is_ok_and(|m| m.len() > 0)) {
        let _ = writeln!(stderr, "Log: {}", log.display());
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Arguments;

    #[test]
    fn usage_lines_show_what_a_person_types() {
        for (line, usage) in [
            ("xtask --help", "Usage: ./x "),
            ("xtask up --nodes many", "'--nodes <N>'"),
            ("xtask node stop", "Usage: ./x node stop "),
        ] {
            let Err(error) = Arguments::try_parse_from(line.split(' ')) else {
                panic!("{line} is not refused");
            };
            let shown = error.to_string();
            assert!(shown.contains(usage), "{line}: {shown}");
            assert!(!shown.contains("xtask"), "{line}: {shown}");
        }
    }
}
