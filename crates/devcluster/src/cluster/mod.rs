//! A cluster as a whole: up, status, down, and its nodes by name.

mod assembly;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

pub(crate) use crate::cluster::assembly::etcd;
use crate::cluster::assembly::{Assembly, join_all};
use crate::debian;
use crate::error::{Doing, Result, refused};
use crate::kubernetes::{self, Kubernetes, Source};
use crate::machine::{Demand, Machine};
use crate::network::{NODES, Network};
use crate::node::{self, Node};
use crate::places::{self, Lock};
use crate::process::{self, Daemon, capture, wait_until};
use crate::report::Report;

/// What is remembered of a cluster between two commands; everything else is read from `/proc`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    network: u8,
    nodes: usize,
    /// With which nodes register.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taint: Option<String>,
}

/// What a cluster is to have.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// How many nodes: as many as it had, or two.
    pub nodes: Option<usize>,
    /// `KEY=VALUE:EFFECT` with which nodes register that are new to it.
    pub taint: Option<String>,
}

/// A named cluster, whether it runs or not.
pub struct Cluster {
    name: String,
    directory: PathBuf,
}

/// What [`Cluster::up`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran already, whole.
    Unchanged,
    /// Something was started.
    Changed,
}

/// One line of [`Cluster::status`].
#[derive(Clone, Debug)]
pub struct Part {
    /// Such as `kube-apiserver` or `node-a/kubelet`.
    pub name: String,
    /// Its process, if it runs.
    pub pid: Option<Pid>,
}

/// Refuses a machine that cannot have a cluster of so many nodes.
pub fn check_machine(nodes: usize) -> Result<()> {
    let build = matches!(Source::find(), Source::ToBuild(_));
    Machine::observe().check(Demand { nodes, build })
}

impl Cluster {
    /// The cluster of that name.
    pub fn named(name: &str) -> Result<Self> {
        places::check_cluster_name(name)?;
        Ok(Self {
            name: name.to_owned(),
            directory: places::clusters().join(name),
        })
    }

    /// All clusters of this user, whether they run or not.
    pub fn all() -> Result<Vec<Self>> {
        let directory = places::clusters();
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.doing(|| format!("cannot read `{}`", directory.display()))?,
        };
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter_map(|name| Self::named(&name).ok()).collect())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("pki/admin.kubeconfig")
    }

    /// Brings it up. `program` is the `./x` executable, which also is the registry. Repairs whatever is missing. Called
    /// twice: the second call changes nothing.
    pub fn up(&self, wanted: &Wanted, program: &Path, report: &Report) -> Result<Outcome> {
        let known = self.record();
        let had = known.as_ref().map(|record| record.nodes);
        let nodes = wanted.nodes.or(had).unwrap_or(2);
        if nodes > NODES {
            return refused(format!(
                "{nodes} nodes are too many: {NODES} is the most a cluster can have"
            ));
        }
        check_machine(nodes)?;
        let _lock = self.lock(report)?;
        let tools = debian::ensure_tools(report)?;
        let kubernetes = Kubernetes::ensure(report)?;
        kubernetes.must_have(kubernetes::CONTROL_PLANE)?;
        if nodes > 0 {
            kubernetes.must_have(kubernetes::NODE)?;
        }
        if had == Some(nodes)
            && let Some(known) = known.clone()
            && self.assembly(known, &kubernetes, &tools).is_whole()
        {
            return Ok(Outcome::Unchanged);
        }
        // Left where nodes were killed, and not taken down.
        crate::loops::detach_dead(&self.directory)?;
        let record = self.settle(known, nodes, wanted.taint.clone())?;
        self.assembly(record, &kubernetes, &tools)
            .start(program, report)?;
        Ok(Outcome::Changed)
    }

    /// Takes it down: no process, mount, namespace, link, cgroup or file of it is left.
    /// Called twice: the second call finds nothing and says so by returning `false`.
    pub fn down(&self, report: &Report) -> Result<bool> {
        let _lock = self.lock(report)?;
        let cgroups = node::cgroup_prefix(&self.name);
        let nothing = !self.directory.exists()
            && process::processes_below(&self.directory).is_empty()
            && crate::cgroups::find(&cgroups).is_empty();
        if nothing {
            return Ok(false);
        }
        let step = report.step(format!("Taking cluster {} down", self.name));
        // Every process of a cluster carries its mark, the inits of hub and nodes among them: with those
        // gone the kernel ends the rest, containers included.
        let log = report.log();
        wait_until(
            "the end of all processes",
            Duration::from_secs(30),
            log,
            || {
                let left = process::processes_below(&self.directory);
                for pid in &left {
                    let _ = kill(*pid, Signal::SIGKILL);
                }
                Ok(left.is_empty())
            },
        )?;
        crate::loops::detach_below(&self.directory)?;
        crate::cgroups::remove(&cgroups)?;
        if let Some(record) = self.record() {
            Network::new(record.network).remove_link()?;
        }
        places::remove(&self.directory)?;
        // Leave no empty parents behind; a neighbour's directory keeps them.
        for parent in self.directory.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(parent);
        }
        step.done("");
        Ok(true)
    }

    /// Its parts and their processes; empty if there is no such cluster.
    pub fn status(&self) -> Result<Vec<Part>> {
        if self.record().is_none() {
            return Ok(Vec::new());
        }
        self.existing(|assembly| Ok(assembly.parts()))
    }

    /// Runs `kubectl` with the administrator's rights and returns what it printed.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let kubernetes = Kubernetes::already_there()?;
        capture(kubectl(&kubernetes, &self.kubeconfig()).args(arguments))
    }

    /// Powers a node off.
    pub fn stop_node(&self, name: &str, report: &Report) -> Result<()> {
        let _lock = self.lock(report)?;
        self.existing(|assembly| assembly.node(name)?.stop())
    }

    /// Pulls a node's cable.
    pub fn cut_node(&self, name: &str, report: &Report) -> Result<()> {
        let _lock = self.lock(report)?;
        self.existing(|assembly| assembly.node(name)?.cut(assembly.running_hub()?))
    }

    /// Brings a node back, whether it was stopped or cut off.
    pub fn start_node(&self, name: &str, report: &Report) -> Result<()> {
        let _lock = self.lock(report)?;
        self.existing(|assembly| assembly.start_node(&assembly.node(name)?))
    }

    /// Loads an image archive into every node that runs; returns how many.
    pub fn load_image(&self, archive: &Path) -> Result<usize> {
        if self.record().is_none() {
            return Ok(0);
        }
        self.existing(|assembly| {
            let nodes = assembly.nodes();
            let running: Vec<&Node> = nodes.iter().filter(|node| node.pid().is_some()).collect();
            thread::scope(|scope| {
                let load = |node: &&Node| node.load_image(archive);
                join_all(
                    running
                        .iter()
                        .map(|node| scope.spawn(move || load(node)))
                        .collect(),
                )
            })?;
            Ok(running.len())
        })
    }

    /// The first process of a node, for commands that look inside it.
    pub fn node_pid(&self, name: &str) -> Result<Pid> {
        Daemon::new(&self.directory.join("nodes").join(name), "catatonit").must_run()
    }

    /// Works on a cluster that was made before.
    fn existing<T>(&self, work: impl FnOnce(&Assembly) -> Result<T>) -> Result<T> {
        let Some(record) = self.record() else {
            return refused(format!(
                "there is no cluster `{}`: make it with `./x up`",
                self.name
            ));
        };
        let kubernetes = Kubernetes::already_there()?;
        work(&self.assembly(record, &kubernetes, &debian::tools_directory()))
    }

    fn assembly<'a>(
        &'a self,
        record: Record,
        kubernetes: &'a Kubernetes,
        tools: &'a Path,
    ) -> Assembly<'a> {
        Assembly {
            cluster: self,
            record,
            kubernetes,
            tools,
        }
    }

    fn lock(&self, report: &Report) -> Result<Lock> {
        places::lock(&format!("cluster-{}", self.name), || {
            report.say(&format!(
                "Another command works on cluster {}: waiting for it",
                self.name
            ));
        })
    }

    fn record(&self) -> Option<Record> {
        let text = fs::read(self.directory.join("cluster.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes down which addresses the cluster has, choosing them the first time.
    fn settle(&self, known: Option<Record>, nodes: usize, taint: Option<String>) -> Result<Record> {
        let _one_chooser = places::lock("addresses", || ())?;
        let network = match known {
            Some(record) => record.network,
            None => Network::pick(&taken()?)?.index(),
        };
        let record = Record {
            network,
            nodes,
            taint,
        };
        places::make(&self.directory)?;
        let text = serde_json::to_string(&record)
            .map_err(std::io::Error::from)
            .doing(|| "cannot write down the cluster".to_owned())?;
        places::write(&self.directory.join("cluster.json"), text)?;
        Ok(record)
    }
}

/// `kubectl` for a kubeconfig.
pub fn kubectl(kubernetes: &Kubernetes, kubeconfig: &Path) -> Command {
    kubernetes::kubectl(&kubernetes.program("kubectl"), kubeconfig)
}

/// Address ranges of all clusters of this user.
fn taken() -> Result<Vec<u8>> {
    let records = Cluster::all()?;
    Ok(records
        .iter()
        .filter_map(Cluster::record)
        .map(|record| record.network)
        .collect())
}
