//! The driver for Weka: directories of a filesystem as volumes, with quotas of the array. The array is simulated.

use std::path::Path;

use anyhow::Context;
use devcluster::cluster::Cluster;
use devcluster::report::Report;
use devcluster::weka_sim::SimulatedWeka;

use super::kubectl::{Kubectl, show_own};
use crate::workspace::{root, say};
use crate::{image, test};

const DRIVER: &str = "deploy/samples/weka.yaml";

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: stowage-demo}\n";
const CLASS: &str = "examples/dynamic_api/storageclass-wekafs-dir-api.yaml";
const CLAIM: &str = "examples/dynamic_api/pvc-wekafs-dir-api.yaml";
const WRITER: &str = "examples/dynamic_api/csi-app-on-dir-api.yaml";

pub fn run(kubectl: &Kubectl, cluster: &str, report: &Report) -> anyhow::Result<()> {
    image::build_and_load_simulator(cluster, report)?;
    let array = array(cluster)?;
    start_array(kubectl, &array, report)?;
    deploy_driver(kubectl, &array, report)?;
    run_application(kubectl, &array.data, report)?;
    fill(kubectl)?;
    say("\
\nTry:
  ./x kubectl --namespace csi-wekafs delete pod --all      the pod writes on: its mount does not need the driver
  ./x kubectl --namespace stowage-demo patch pvc pvc-wekafs-dir-api -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"2Gi\"}}}}'
  ./x kubectl delete namespace stowage-demo                the directory goes with its claim
  docs/guides/weka.md and docs/guides/simulators.md        more, and the array's faults on demand
  ./x down                   when you are done");
    Ok(())
}

/// The array. Its files are with the dev cluster, so that they go with it.
fn array(cluster: &str) -> anyhow::Result<SimulatedWeka> {
    let data = match test::own_cluster()? {
        Some(_) => None,
        None => Some(Cluster::named(cluster)?.directory().join("weka-sim")),
    };
    Ok(SimulatedWeka::new(data))
}

fn start_array(kubectl: &Kubectl, array: &SimulatedWeka, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Starting a simulated Weka cluster, with a client on every node");
    array.apply(kubectl.command())?;
    array.wait(|| kubectl.command())?;
    step.done("");
    Ok(())
}

fn deploy_driver(kubectl: &Kubectl, array: &SimulatedWeka, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Deploying the driver from one resource");
    kubectl.apply_text(&array.with_stand_ins(&read(DRIVER)?, "")?)?;
    array.apply_secret(|| kubectl.command(), "csi-wekafs-api-secret", "csi-wekafs")?;
    let instance = ["--namespace", "csi-wekafs", "get", "csidriverdeployment"];
    let available = "jsonpath={.items[*].status.conditions[?(@.type=='Available')].status}";
    kubectl.wait("csidriverdeployment/csi-wekafs is Available", |kubectl| {
        Ok(kubectl.run(&[&instance[..], &["-o", available]].concat())? == "True")
    })?;
    step.done("");
    say("");
    kubectl.show(&instance)?;
    kubectl.show(&["--namespace", "csi-wekafs", "get", "pods", "-o", "wide"])
}

fn run_application(kubectl: &Kubectl, data: &Path, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Giving a pod a directory of the filesystem");
    kubectl.run(&["delete", "namespace", "stowage-demo", "--ignore-not-found"])?;
    kubectl.apply_text(NAMESPACE)?;
    for file in [CLASS, CLAIM, WRITER] {
        kubectl.own(&["apply", "-f", file])?;
    }
    kubectl.wait_for_pod("my-csi-app-api")?;
    step.done("");
    say("");
    kubectl.show_own(&["get", "pvc,pod"])?;
    show_files(data);
    kubectl.show_own(&["exec", "my-csi-app-api", "--", "cat", "/data/temp.txt"])
}

/// What the array has of it, as a person with a mount of the filesystem would look.
fn show_files(data: &Path) {
    let filesystems = std::fs::read_dir(data.join("filesystems"));
    for filesystem in filesystems.into_iter().flatten().flatten() {
        let volumes = filesystem.path().join("root/csi-volumes");
        for volume in std::fs::read_dir(volumes).into_iter().flatten().flatten() {
            let name = volume.file_name();
            say(&format!("$ ls csi-volumes\n{}\n", name.to_string_lossy()));
        }
    }
}

/// Writes more than the claim has.
fn fill(kubectl: &Kubectl) -> anyhow::Result<()> {
    let write = "dd if=/dev/zero of=/data/large bs=64M count=32 2>&1; rm /data/large";
    let exec = ["exec", "my-csi-app-api", "--", "sh", "-c", write];
    let said = kubectl.own(&exec)?;
    show_own(&exec, &said);
    Ok(())
}

fn read(file: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))
}
