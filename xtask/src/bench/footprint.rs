//! `./x bench footprint`: what a complete installation costs a cluster at rest: images, rights, memory of each container.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, bail};
use devcluster::cluster::{Cluster, Wanted};
use devcluster::kubernetes::kubectl_program;
use devcluster::process::capture;
use devcluster::report::Report;
use serde_json::{Value, json};
use stowage_chart::chart::Chart;
use stowage_chart::manifest::Manifest;
use stowage_chart::release::Kubectl;
use stowage_chart::render::{Identity, no_cluster, render};

use crate::image::{self, Binary};
use crate::workspace::{self, say};

const CLUSTER: &str = "footprint";
const NAMESPACE: &str = "csi-operator";
/// After this nothing is left of the start, and each process has let go of what it needed only then.
const REST: Duration = Duration::from_secs(60);
/// What people count in.
const MB: f64 = 1e6;

pub fn run(report: &Report) -> anyhow::Result<()> {
    let archive = image::build(Binary::Release, report)?;
    let cluster = Cluster::named(CLUSTER)?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let one = Wanted {
        nodes: Some(1),
        ..Wanted::default()
    };
    cluster.up(&one, &program, report)?;
    let measured = image::load(CLUSTER, &archive, report)
        .and_then(|_| install(&cluster, report))
        .and_then(|()| containers(&cluster));
    cluster.down(report)?;
    let containers = measured?;
    say(&format!(
        "\n{}{}{}",
        images(&archive)?,
        rights()?,
        memory(&containers)
    ));
    Ok(())
}

/// Operator, snapshot controller and the embedded driver with one controller.
fn values() -> Value {
    json!({
        "snapshotController": {"enabled": true, "replicas": 1},
        "drivers": {"hostpath": {"enabled": true}},
    })
}

fn chart() -> anyhow::Result<Chart> {
    Ok(Chart::load(&workspace::root().join("charts/stowage"))?)
}

fn kubectl(cluster: &Cluster) -> Kubectl {
    Kubectl {
        program: kubectl_program(),
        kubeconfig: cluster.kubeconfig(),
        patience: Duration::from_secs(120),
    }
}

fn install(cluster: &Cluster, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Installing all of it");
    let release = Identity::new(NAMESPACE, "stowage");
    kubectl(cluster).install(&chart()?, &values(), &release)?;
    ask(
        cluster,
        &[
            "wait",
            "--for=condition=Available",
            "csidriverdeployment/hostpath",
            "--namespace",
            NAMESPACE,
            "--timeout=120s",
        ],
    )?;
    step.done("");
    let step = report.step("Letting it come to rest");
    thread::sleep(REST);
    step.done("");
    Ok(())
}

fn ask(cluster: &Cluster, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = std::process::Command::new(kubectl_program());
    command
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .args(arguments);
    Ok(capture(&mut command)?)
}

/// What a container has in memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// Usage without the pages of files that the kernel would drop first.
    working_set: u64,
    /// What the process itself has asked for.
    anonymous: u64,
}

/// Pod and container of all that is installed.
fn containers(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, Memory>> {
    let pods = ask(
        cluster,
        &["get", "pods", "--all-namespaces", "--output=json"],
    )?;
    let pods: Value = serde_json::from_str(&pods)?;
    let mut found = BTreeMap::new();
    for pod in pods["items"].as_array().into_iter().flatten() {
        for status in pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if !status["image"]
                .as_str()
                .is_some_and(|it| it.contains("stowage"))
            {
                continue;
            }
            let id = status["containerID"].as_str().unwrap_or_default();
            let id = id.rsplit('/').next().unwrap_or_default();
            let part = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let owner = part(&pod["metadata"]["generateName"])
                .trim_end_matches('-')
                .to_owned();
            // A Deployment's pods have the name of its ReplicaSet.
            let hash = part(&pod["metadata"]["labels"]["pod-template-hash"]);
            let owner = owner.trim_end_matches(&format!("-{hash}")).to_owned();
            let name = format!("{owner} / {}", part(&status["name"]));
            found.insert(name, memory_of(id)?);
        }
    }
    if found.is_empty() {
        bail!("no container of ours runs: see `./x --cluster {CLUSTER} kubectl get pods -A`");
    }
    Ok(found)
}

/// Of the container's own cgroup, wherever the kubelet has put it.
fn memory_of(id: &str) -> anyhow::Result<Memory> {
    let top = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(PathBuf::from);
    let found = top
        .iter()
        .filter(|it| it.is_dir())
        .find_map(|it| below(it, id));
    let directory = found.with_context(|| format!("container {id} has no cgroup for memory"))?;
    let read = |names: &[&str]| {
        names
            .iter()
            .find_map(|it| fs::read_to_string(directory.join(it)).ok())
    };
    let usage = read(&["memory.usage_in_bytes", "memory.current"])
        .context("the cgroup does not tell its usage")?;
    let details = read(&["memory.stat"]).context("the cgroup does not tell what it uses")?;
    let detail = |names: &[&str]| -> u64 {
        let lines = details.lines().filter_map(|line| line.split_once(' '));
        let mut values = lines.filter(|(name, _)| names.contains(name));
        values
            .next()
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or_default()
    };
    let usage: u64 = usage.trim().parse()?;
    Ok(Memory {
        working_set: usage.saturating_sub(detail(&["total_inactive_file", "inactive_file"])),
        anonymous: detail(&["total_rss", "anon"]),
    })
}

/// The directory whose name has the container's id.
fn below(directory: &Path, id: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    let directories: Vec<_> = entries
        .map(|it| it.path())
        .filter(|it| it.is_dir())
        .collect();
    let named = |it: &&PathBuf| {
        it.file_name()
            .is_some_and(|name| name.to_string_lossy().contains(id))
    };
    directories
        .iter()
        .find(named)
        .cloned()
        .or_else(|| directories.iter().find_map(|it| below(it, id)))
}

#[allow(clippy::cast_precision_loss, reason = "megabytes for people")]
fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MB)
}

fn images(archive: &Path) -> anyhow::Result<String> {
    let binary = workspace::target().join("release/stowage");
    let size = |file: &Path| -> anyhow::Result<String> { Ok(megabytes(file.metadata()?.len())) };
    Ok(format!(
        "| images to mirror | archive, MB | binary in it, MB |\n|---|---|---|\n| 1 | {} | {} |\n\n",
        size(archive)?,
        size(&binary)?
    ))
}

/// Rules of each role that a complete installation makes; those that drivers have are the operator's to make.
fn rights() -> anyhow::Result<String> {
    let rendered = render(
        &chart()?,
        &values(),
        &Identity::new(NAMESPACE, "stowage"),
        no_cluster(),
    )?;
    let manifest = Manifest::of(&rendered)?;
    let mut text = String::from("| role | rules |\n|---|---|\n");
    for object in &manifest.objects {
        if let Some(rules) = object.0["rules"].as_array() {
            _ = writeln!(
                text,
                "| {} {} | {} |",
                object.kind(),
                object.name(),
                rules.len()
            );
        }
    }
    Ok(text + "\n")
}

fn memory(containers: &BTreeMap<String, Memory>) -> String {
    let mut text =
        String::from("| container | working set, MB | of it anonymous |\n|---|---|---|\n");
    let (mut per_node, mut per_cluster) = (0, 0);
    for (name, memory) in containers {
        _ = writeln!(
            text,
            "| {name} | {} | {} |",
            megabytes(memory.working_set),
            megabytes(memory.anonymous)
        );
        if name.contains("-node ") {
            per_node += memory.working_set;
        } else {
            per_cluster += memory.working_set;
        }
    }
    _ = writeln!(
        text,
        "| **on every node** | {} | |\n| **once per cluster** | {} | |",
        megabytes(per_node),
        megabytes(per_cluster)
    );
    text
}
