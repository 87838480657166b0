//! The embedded driver: a volume that grows and is copied while a pod writes to it.

use std::time::Duration;

use devcluster::report::Report;

use super::kubectl::{Kubectl, show, show_own};
use crate::workspace::say;

/// A claim and the pod that uses it.
const APPLICATION: &str = include_str!("../demo.yaml");
const SNAPSHOT: &str = include_str!("../demo-snapshot.yaml");
/// Volumes from the snapshot and from the volume itself.
const COPIES: &str = include_str!("../demo-copies.yaml");
const SAMPLE: &str = "deploy/samples/hostpath.yaml";

pub fn run(kubectl: &Kubectl, report: &Report) -> anyhow::Result<()> {
    deploy_driver(kubectl, report)?;
    run_application(kubectl, report)?;
    grow(kubectl, report)?;
    copy(kubectl, report)?;
    say("\
\nTry:
  ./x kubectl describe csidriverdeployment hostpath        what the operator made, and how it is
  ./x kubectl delete daemonset hostpath-node               and look again: it is back within a second
  ./x kubectl --namespace stowage-demo get events          what the sidecar says
  ./x kubectl delete namespace stowage-demo                volumes and snapshots go with their claims
  ./x node stop node-b       and then: ./x kubectl get nodes --watch
  ./x demo weka              the same for Weka, with a simulated array
  ./x down                   when you are done");
    Ok(())
}

fn deploy_driver(kubectl: &Kubectl, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Deploying a CSI driver from one resource");
    let applied = kubectl.apply_file(SAMPLE)?;
    let available = "jsonpath={.status.conditions[?(@.type=='Available')].status}";
    kubectl.wait("csidriverdeployment/hostpath is Available", |kubectl| {
        let status = kubectl.run(&["get", "csidriverdeployment", "hostpath", "-o", available])?;
        Ok(status == "True")
    })?;
    step.done("");
    say("");
    show(&["apply", "-f", SAMPLE], &applied);
    kubectl.show(&["get", "csidriverdeployments"])?;
    kubectl.show(&["get", "pods", "-o", "wide"])?;
    kubectl.show(&["get", "storageclasses"])
}

fn run_application(kubectl: &Kubectl, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Giving a pod a volume");
    // A volume cannot shrink, so a second demo begins where the first one did.
    kubectl.run(&["delete", "namespace", "stowage-demo", "--ignore-not-found"])?;
    kubectl.apply_text(APPLICATION)?;
    kubectl.wait_for_pod("writer")?;
    step.done("");
    say("");
    kubectl.show_own(&["get", "pvc,pod"])?;
    let tail = ["exec", "writer", "--", "tail", "-n", "3", "/data/temp.txt"];
    kubectl.show_own(&tail)?;
    std::thread::sleep(Duration::from_secs(3));
    kubectl.show_own(&tail)
}

/// Asks for more room while the pod writes.
fn grow(kubectl: &Kubectl, report: &Report) -> anyhow::Result<()> {
    let df = ["exec", "writer", "--", "df", "-h", "/data"];
    kubectl.show_own(&df)?;
    let room = "df /data | awk '{print $2}'";
    let room = ["exec", "writer", "--", "sh", "-c", room];
    let before = kubectl.own(&room)?;
    let step = report.step("Growing the volume while the pod writes to it");
    let size = r#"{"spec":{"resources":{"requests":{"storage":"480Mi"}}}}"#;
    let patch = ["patch", "pvc", "data", "--patch", size];
    let patched = kubectl.own(&patch)?;
    // A kubelet that happens to look at the pod right then takes the condition away before anybody has seen it.
    let grown = "jsonpath={.status.conditions[?(@.type=='FileSystemResizePending')].status} {.status.capacity.storage}";
    kubectl.wait("the driver has grown the volume", |kubectl| {
        let said = kubectl.own(&["get", "pvc", "data", "-o", grown])?;
        Ok(said.contains("True") || said.ends_with("480Mi"))
    })?;
    // The kubelet looks at the volumes of a pod about once a minute, and at once when the pod changes.
    kubectl.own(&["annotate", "pod", "writer", "stowage.dev/look=now"])?;
    kubectl.wait("the pod sees more room", |kubectl| {
        Ok(kubectl.own(&room)? != before)
    })?;
    step.done("");
    say("");
    show_own(&patch, &patched);
    kubectl.show_own(&df)
}

/// Takes a snapshot, and makes volumes from it and from the volume itself.
fn copy(kubectl: &Kubectl, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Taking a snapshot");
    kubectl.apply_text(SNAPSHOT)?;
    kubectl.wait("the snapshot is ready", |kubectl| {
        let ready = "jsonpath={.status.readyToUse}";
        Ok(kubectl.own(&["get", "volumesnapshot", "monday", "-o", ready])? == "true")
    })?;
    step.done("");
    say("");
    kubectl.show_own(&["get", "volumesnapshots"])?;
    let step =
        report.step("Restoring it into a larger volume, and cloning the volume as it is now");
    kubectl.apply_text(COPIES)?;
    kubectl.wait_for_pod("reader")?;
    step.done("");
    say("");
    kubectl.show_own(&["get", "pvc"])?;
    let files = ["/restored/temp.txt", "/clone/temp.txt"];
    let tail = ["exec", "reader", "--", "tail", "-n", "1"];
    kubectl.show_own(&[&tail[..], &files[..]].concat())
}
