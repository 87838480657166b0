//! The verbs about the cluster.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use clap::Subcommand;
use devcluster::cluster::{Cluster, Outcome, Wanted};
use devcluster::kubernetes::kubectl_program;
use devcluster::report::Report;
use devcluster::testing::KUBECONFIG_VARIABLE;

use crate::workspace::say;

/// What can be done to a node.
#[derive(Subcommand)]
pub enum NodeVerb {
    /// Power a node off: everything on it ends at once, its disk stays.
    Stop {
        /// Such as `node-b`.
        name: String,
    },
    /// Pull a node's cable: everything on it goes on, nobody can reach it.
    Cut {
        /// Such as `node-b`.
        name: String,
    },
    /// Bring a node back.
    Start {
        /// Such as `node-b`.
        name: String,
    },
}

pub fn up(name: &str, wanted: &Wanted, report: &Report) -> anyhow::Result<()> {
    let cluster = Cluster::named(name)?;
    let program = env::current_exe().context("cannot find this program's own file")?;
    match cluster.up(wanted, &program, report)? {
        Outcome::Unchanged => say(&format!(
            "Cluster {name} is up already: nothing was changed."
        )),
        Outcome::Changed => say(&format!("Cluster {name} is up.")),
    }
    say(&format!(
        "  ./x kubectl get nodes          or: export KUBECONFIG={}\n  ./x down                       to take it down",
        cluster.kubeconfig().display()
    ));
    Ok(())
}

pub fn down(name: &str, report: &Report) -> anyhow::Result<()> {
    if Cluster::named(name)?.down(report)? {
        say(&format!("Cluster {name} is gone."));
    } else {
        say(&format!("There is no cluster {name}: nothing was changed."));
    }
    Ok(())
}

/// Exit code 0 only if everything runs.
pub fn status(name: &str) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::named(name)?;
    let parts = cluster.status()?;
    if parts.is_empty() {
        say(&format!(
            "There is no cluster {name}. Make it with `./x up`."
        ));
        return Ok(ExitCode::FAILURE);
    }
    let mut whole = true;
    for part in &parts {
        match part.pid {
            Some(pid) => say(&format!("{:<26} running, process {pid}", part.name)),
            None => {
                whole = false;
                say(&format!("{:<26} not running", part.name));
            }
        }
    }
    say(&format!(
        "kubeconfig                 {}",
        cluster.kubeconfig().display()
    ));
    match cluster.kubectl(&["get", "nodes", "-o", "wide", "--request-timeout=5s"]) {
        Ok(nodes) => say(&format!("\n{}", nodes.trim_end())),
        Err(error) => {
            whole = false;
            say(&format!("\nThe API server does not answer: {error}"));
        }
    }
    if !whole {
        say("\nSomething is missing. `./x up` repairs it.");
    }
    Ok(if whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

pub fn node(name: &str, verb: &NodeVerb, report: &Report) -> anyhow::Result<()> {
    let cluster = Cluster::named(name)?;
    match verb {
        NodeVerb::Stop { name } => {
            cluster.stop_node(name, report)?;
            say(&format!(
                "{name} is off. It will be NotReady in about 10 s; `./x node start {name}` brings it back."
            ));
        }
        NodeVerb::Cut { name } => {
            cluster.cut_node(name, report)?;
            say(&format!(
                "{name} is cut off. It will be NotReady in about 10 s; `./x node start {name}` connects it."
            ));
        }
        NodeVerb::Start { name } => {
            cluster.start_node(name, report)?;
            say(&format!(
                "{name} is starting. It will be Ready in about 8 s."
            ));
        }
    }
    Ok(())
}

/// Becomes kubectl, so that its terminal, signals and exit code are its own.
pub fn kubectl(name: &str, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::named(name)?;
    let kubeconfig = match env::var_os(KUBECONFIG_VARIABLE).filter(|v| !v.is_empty()) {
        Some(own) => PathBuf::from(own),
        None => cluster.kubeconfig(),
    };
    if !kubeconfig.is_file() {
        bail!(
            "there is no kubeconfig `{}`: make a cluster with `./x up`",
            kubeconfig.display()
        );
    }
    let error = Command::new(kubectl_program())
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .exec();
    Err(error).context("cannot run kubectl")
}
