//! The driver for VPSAs: a share and a raw disk of two arrays. The arrays are simulated.

use std::path::PathBuf;

use anyhow::Context;
use devcluster::cluster::Cluster;
use devcluster::report::Report;
use devcluster::vpsa_sim::{ACCESS_KEY, ARRAYS, SimulatedVpsas};

use super::kubectl::Kubectl;
use crate::workspace::{root, say};
use crate::{image, test};

const DRIVER: &str = "deploy/samples/vpsa.yaml";
const INSTANCE: &str = "csi-vpsa";

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: stowage-demo}\n";
const ARRAY_CLASS: &str = "examples/vpsa/arrays.yaml";
const CLASSES: &str = "examples/vpsa/storageclass.yaml";
const APPLICATION: &str = "examples/vpsa/application.yaml";

pub fn run(kubectl: &Kubectl, cluster: &str, report: &Report) -> anyhow::Result<()> {
    image::build_and_load_simulator(cluster, report)?;
    let data = match test::own_cluster()? {
        Some(_) => PathBuf::from("/srv/stowage-sim-vpsa"),
        None => Cluster::named(cluster)?.directory().join("vpsa-sim"),
    };
    let sim = SimulatedVpsas::new(&data);
    let step = report.step("Starting two simulated VPSAs");
    sim.apply(|| kubectl.command(), INSTANCE)?;
    sim.wait(|| kubectl.command())?;
    step.done("");
    deploy_driver(kubectl, &sim, report)?;
    add_arrays(kubectl, &sim, report)?;
    run_application(kubectl, report)?;
    say("\
\nTry:
  ./x kubectl --namespace csi-vpsa delete pod --all        the pod writes on: its volumes do not need the driver
  ./x kubectl get volumes.storage.zadara.com -o wide       where they are
  ./x kubectl delete namespace stowage-demo                volumes go with their claims
  docs/guides/vpsa.md and docs/guides/simulators.md        more, and the arrays' faults on demand
  ./x down                   when you are done");
    Ok(())
}

fn deploy_driver(kubectl: &Kubectl, sim: &SimulatedVpsas, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Deploying the driver from one resource");
    kubectl.apply_text(&sim.with_stand_ins(&read(DRIVER)?, "")?)?;
    let instance = ["--namespace", INSTANCE, "get", "csidriverdeployment"];
    let available = "jsonpath={.items[*].status.conditions[?(@.type=='Available')].status}";
    kubectl.wait("csidriverdeployment/csi-vpsa is Available", |kubectl| {
        Ok(kubectl.run(&[&instance[..], &["-o", available]].concat())? == "True")
    })?;
    step.done("");
    say("");
    kubectl.show(&["--namespace", INSTANCE, "get", "pods", "-o", "wide"])
}

fn add_arrays(kubectl: &Kubectl, sim: &SimulatedVpsas, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Telling the cluster of both VPSAs");
    let class = read(ARRAY_CLASS)?;
    let class = class.split("\n---\n").next().unwrap_or_default();
    kubectl.apply_text(class)?;
    for array in ARRAYS {
        sim.add(|| kubectl.command(), array, ACCESS_KEY)?;
    }
    kubectl.wait("both VPSAs are Ready", |kubectl| {
        let states = ["get", "vpsas", "-o", "jsonpath={.items[*].status.state}"];
        Ok(kubectl.run(&states)? == "Ready Ready")
    })?;
    step.done("");
    say("");
    kubectl.show(&["get", "vscstorageclasses,vpsas,vscnodes"])
}

fn run_application(kubectl: &Kubectl, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Giving a pod a share and a disk");
    kubectl.run(&["delete", "namespace", "stowage-demo", "--ignore-not-found"])?;
    kubectl.apply_text(NAMESPACE)?;
    for file in [CLASSES, APPLICATION] {
        kubectl.own(&["apply", "-f", file])?;
    }
    kubectl.wait_for_pod("vpsa-application")?;
    kubectl.wait("the pod writes", |kubectl| {
        let written = ["test", "-s", "/data/dates"];
        Ok(kubectl.own(&in_the_pod(&written)).is_ok())
    })?;
    step.done("");
    say("");
    kubectl.show_own(&["get", "pvc,pod"])?;
    kubectl.show(&["get", "volumes.storage.zadara.com"])?;
    let first_lines = ["head", "-n", "1", "/data/dates", "/dev/disk"];
    kubectl.show_own(&in_the_pod(&first_lines))
}

fn in_the_pod<'a>(command: &[&'a str]) -> Vec<&'a str> {
    [&["exec", "vpsa-application", "--"], command].concat()
}

fn read(file: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))
}
