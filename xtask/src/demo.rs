//! `./x demo`: what a newcomer sees first.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use devcluster::cluster::Cluster;
use devcluster::kubernetes::kubectl_program;
use devcluster::process::{capture, feed, wait_until};
use devcluster::report::Report;

use crate::workspace::say;
use crate::{image, test};

/// A pod that runs our image against the cluster it runs in, with just the rights it needs.
const MANIFEST: &str = include_str!("demo.yaml");

pub fn run(name: &str, report: &Report) -> anyhow::Result<()> {
    let kubeconfig = match test::own_cluster()? {
        Some(own) => {
            let archive = image::build(report)?;
            say(&format!(
                "The nodes of your cluster must have {}: it is in {}",
                image::NAME,
                archive.display()
            ));
            own
        }
        None => {
            let cluster = Cluster::named(name)?;
            let program = env::current_exe().context("cannot find this program's own file")?;
            cluster.up(None, &program, report)?;
            let archive = image::build(report)?;
            image::load(name, &archive, report)?;
            cluster.kubeconfig()
        }
    };
    let step = report.step("Running `stowage status` in a pod of the cluster");
    let said = run_pod(&kubeconfig)?;
    step.done("");
    say(&format!(
        "\n$ stowage status        (in pod stowage-demo/status, with its own ServiceAccount)\n{said}"
    ));
    say("\
Try:
  ./x kubectl get pods -A -o wide
  ./x node stop node-b      and then: ./x kubectl get nodes --watch
  ./x status
  ./x down                  when you are done");
    Ok(())
}

fn run_pod(kubeconfig: &Path) -> anyhow::Result<String> {
    let program = kubectl_program();
    let kubectl = || {
        let mut command = Command::new(&program);
        command.arg("--kubeconfig").arg(kubeconfig);
        command
    };
    let pod = ["pod", "status", "--namespace", "stowage-demo"];
    // A pod cannot be changed, so a second demo replaces the first one's.
    capture(kubectl().arg("delete").args(pod).arg("--ignore-not-found"))?;
    let manifest = MANIFEST.replace("IMAGE", image::NAME);
    feed(kubectl().args(["apply", "-f", "-"]), &manifest)?;
    let log = Path::new("kubectl describe pod status --namespace stowage-demo");
    wait_until("the pod's end", Duration::from_secs(60), log, || {
        let phase = capture(
            kubectl()
                .arg("get")
                .args(pod)
                .args(["-o", "jsonpath={.status.phase}"]),
        )?;
        Ok(phase == "Succeeded" || phase == "Failed")
    })?;
    Ok(capture(kubectl().args([
        "logs",
        "status",
        "--namespace",
        "stowage-demo",
    ]))?)
}
