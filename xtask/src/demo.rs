//! `./x demo`: what a newcomer sees first. From nothing to a pod that writes to a volume, each step as a person would
//! type it.

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
    say("\
\nTry:
  ./x kubectl describe csidriverdeployment hostpath        what the operator made, and how it is
  ./x kubectl delete daemonset hostpath-node               and look again: it is back within a second
  ./x kubectl delete namespace stowage-demo                the volume goes with its claim
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
    let pod = ["pod", "writer", "--namespace", "stowage-demo"];
    // A pod cannot be changed, so a second demo replaces the first one's.
    kubectl.run(&[&["delete", "--ignore-not-found"], &pod[..]].concat())?;
    feed(kubectl.command().args(["apply", "-f", "-"]), APPLICATION)?;
    kubectl.wait("the pod runs", |kubectl| {
        let phase = ["-o", "jsonpath={.status.phase}"];
        Ok(kubectl.run(&[&["get"], &pod[..], &phase[..]].concat())? == "Running")
    })?;
    step.done("");
    say("");
    let namespace = ["--namespace", "stowage-demo"];
    kubectl.show(&[&["get", "pvc,pod"], &namespace[..]].concat())?;
    let tail = ["exec", "writer", "--", "tail", "-n", "3", "/data/temp.txt"];
    kubectl.show(&[&namespace[..], &tail[..]].concat())?;
    std::thread::sleep(Duration::from_secs(3));
    kubectl.show(&[&namespace[..], &tail[..]].concat())
}

/// The driver of the demo: the embedded one.
const SAMPLE: &str = "deploy/samples/hostpath.yaml";

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
    let typed = arguments.join(" ");
    say(&format!("$ kubectl {typed}\n{}\n", said.trim_end()));
}
