//! `./x demo`: what a newcomer sees first. From nothing to a pod that writes to a volume, each step as a person would
//! type it.

mod hostpath;
mod kubectl;
mod vpsa;
mod weka;
mod weka_operator;

use std::env;
use std::path::PathBuf;

use anyhow::Context;
use devcluster::cluster::{Cluster, Wanted, check_machine};
use devcluster::kubernetes::kubectl_program;
use devcluster::report::Report;

use self::kubectl::Kubectl;
use crate::image::Binary;
use crate::workspace::{self, say};
use crate::{image, test};

/// The driver to show.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Driver {
    /// The embedded driver: grow, snapshot, restore, clone.
    Hostpath,
    /// The driver for Weka, with a simulated array: directories with quotas.
    Weka,
    /// The driver for VPSAs, with two simulated arrays: a share and a raw disk.
    Vpsa,
    /// Weka clients that bring the driver along, with a simulated array: the switch under writers.
    WekaOperator,
}

pub fn run(driver: Driver, name: &str, report: &Report) -> anyhow::Result<()> {
    let kubectl = Kubectl {
        program: kubectl_program(),
        kubeconfig: prepare(name, report)?,
    };
    install_operator(&kubectl, report)?;
    match driver {
        Driver::Hostpath => hostpath::run(&kubectl, report),
        Driver::Weka => weka::run(&kubectl, name, report),
        Driver::Vpsa => vpsa::run(&kubectl, name, report),
        Driver::WekaOperator => weka_operator::run(&kubectl, name, report),
    }
}

/// A cluster whose nodes have our image; returns the way to it.
fn prepare(name: &str, report: &Report) -> anyhow::Result<PathBuf> {
    if let Some(own) = test::own_cluster()? {
        let archive = image::build(Binary::Release, report)?;
        say(&image::must_be_on_the_nodes(&archive));
        return Ok(own);
    }
    let cluster = Cluster::named(name)?;
    let program = env::current_exe().context("cannot find this program's own file")?;
    // What would be refused is refused before minutes of building.
    check_machine(1)?;
    workspace::build_debug_and_servers(report)?;
    cluster.up(&Wanted::default(), &program, report)?;
    let archive = image::build(Binary::Debug, report)?;
    image::load(name, &archive, report)?;
    Ok(cluster.kubeconfig())
}

fn install_operator(kubectl: &Kubectl, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Installing the operator");
    kubectl.apply_file("deploy/prerequisites")?;
    install_snapshots(kubectl)?;
    kubectl.apply_file("deploy/operator.yaml")?;
    let rollout = [
        "rollout",
        "status",
        "deployment/csi-operator",
        "--namespace",
        "csi-operator",
    ];
    kubectl.run(&[&rollout[..], &["--timeout", "120s"]].concat())?;
    step.done("");
    Ok(())
}

/// The kinds of snapshots, and the cluster-wide half of them where there is none.
fn install_snapshots(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.apply_file("deploy/crds/snapshot.storage.k8s.io.yaml")?;
    kubectl.apply_file("deploy/crds/groupsnapshot.storage.k8s.io.yaml")?;
    let of_name = "--field-selector=metadata.name=snapshot-controller-leader";
    let leases = kubectl.run(&["get", "leases", "--all-namespaces", of_name, "-o", "name"])?;
    if leases.is_empty() {
        kubectl.apply_file("deploy/snapshot-controller.yaml")?;
    }
    Ok(())
}
