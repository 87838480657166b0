//! `./x demo`: what a newcomer sees first. From nothing to a pod that writes to a volume, which grows and is copied
//! meanwhile, each step as a person would type it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use devcluster::cluster::Cluster;
use devcluster::kubernetes::kubectl_program;
use devcluster::process::{capture, feed, wait_until};
use devcluster::report::Report;

use crate::workspace::{root, say};
use crate::{image, test};

/// A claim and the pod that uses it.
const APPLICATION: &str = include_str!("demo.yaml");
const SNAPSHOT: &str = include_str!("demo-snapshot.yaml");
/// Volumes from the snapshot and from the volume itself.
const COPIES: &str = include_str!("demo-copies.yaml");
/// How long any step may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn run(name: &str, report: &Report) -> anyhow::Result<()> {
    let kubectl = Kubectl {
        program: kubectl_program(),
        kubeconfig: prepare(name, report)?,
    };
    install_operator(&kubectl, report)?;
    deploy_driver(&kubectl, report)?;
    run_application(&kubectl, report)?;
    grow(&kubectl, report)?;
    copy(&kubectl, report)?;
    say("\
\nTry:
  ./x kubectl describe csidriverdeployment hostpath        what the operator made, and how it is
  ./x kubectl delete daemonset hostpath-node               and look again: it is back within a second
  ./x kubectl --namespace stowage-demo get events          what the sidecar says
  ./x kubectl delete namespace stowage-demo                volumes and snapshots go with their claims
  ./x node stop node-b       and then: ./x kubectl get nodes --watch
  ./x down                   when you are done");
    Ok(())
}

/// A cluster whose nodes have our image; returns the way to it.
fn prepare(name: &str, report: &Report) -> anyhow::Result<PathBuf> {
    if let Some(own) = test::own_cluster()? {
        let archive = image::build(report)?;
        say(&format!(
            "The nodes of your cluster must have {}: it is in {}",
            image::NAME,
            archive.display()
        ));
        return Ok(own);
    }
    let cluster = Cluster::named(name)?;
    let program = env::current_exe().context("cannot find this program's own file")?;
    cluster.up(None, &program, report)?;
    let archive = image::build(report)?;
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
    let pending = "jsonpath={.status.conditions[?(@.type=='FileSystemResizePending')].status}";
    kubectl.wait("the driver has grown the volume", |kubectl| {
        Ok(kubectl.own(&["get", "pvc", "data", "-o", pending])? == "True")
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

/// The driver of the demo: the embedded one.
const SAMPLE: &str = "deploy/samples/hostpath.yaml";

/// The demo's namespace.
const OWN: [&str; 2] = ["--namespace", "stowage-demo"];

/// `kubectl` on the demo's cluster.
struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        // Paths on the command line are those of a person in the project's directory.
        command.current_dir(root());
        command
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        Ok(capture(self.command().args(arguments))?)
    }

    /// Runs it in the demo's namespace.
    fn own(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.run(&[&OWN[..], arguments].concat())
    }

    /// The same, and shows both.
    fn show_own(&self, arguments: &[&str]) -> anyhow::Result<()> {
        self.show(&[&OWN[..], arguments].concat())
    }

    fn wait_for_pod(&self, name: &str) -> anyhow::Result<()> {
        self.wait(&format!("pod {name} runs"), |kubectl| {
            let phase = "jsonpath={.status.phase}";
            Ok(kubectl.own(&["get", "pod", name, "-o", phase])? == "Running")
        })
    }

    fn apply_text(&self, text: &str) -> anyhow::Result<()> {
        feed(self.command().args(["apply", "-f", "-"]), text)?;
        Ok(())
    }

    fn apply_file(&self, file: &str) -> anyhow::Result<String> {
        self.run(&["apply", "-f", file])
    }

    /// Runs it and shows both, what is typed and what comes.
    fn show(&self, arguments: &[&str]) -> anyhow::Result<()> {
        show(arguments, &self.run(arguments)?);
        Ok(())
    }

    fn wait(
        &self,
        what: &str,
        ready: impl Fn(&Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let log = Path::new("kubectl get events --all-namespaces");
        wait_until(what, PATIENCE, log, || Ok(ready(self).unwrap_or(false)))?;
        Ok(())
    }
}

fn show(arguments: &[&str], said: &str) {
    let typed: Vec<_> = arguments.iter().copied().map(quoted).collect();
    let typed = typed.join(" ");
    say(&format!("$ kubectl {typed}\n{}\n", said.trim_end()));
}

fn show_own(arguments: &[&str], said: &str) {
    show(&[&OWN[..], arguments].concat(), said);
}

/// As a shell needs it.
fn quoted(word: &str) -> String {
    if word.contains(['{', ' ']) {
        format!("'{word}'")
    } else {
        word.to_owned()
    }
}
