//! The parts of one cluster, put together: what starts in which order, and when it is whole.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::unistd::Pid;

use super::{Cluster, Part, Record, kubectl};
use crate::control_plane::{self, ControlPlane, Endpoints};
use crate::error::{Error, Result, refused};
use crate::hub::Hub;
use crate::image::store::Store;
use crate::kubernetes::Kubernetes;
use crate::network::{NODES, Network};
use crate::node::Node;
use crate::node_config::REGISTRY_PORT;
use crate::pki::{Authority, Subject};
use crate::process::{self, Daemon, Namespaces, capture, wait_until};
use crate::report::Report;
use crate::{image, places};

/// Custom resources that every cluster has.
const CRDS: &[&str] = &[
    include_str!("../../../../deploy/crds/snapshot.storage.k8s.io.yaml"),
    include_str!("../../../../deploy/crds/groupsnapshot.storage.k8s.io.yaml"),
];

/// A cluster, what it is made of and what it is made with.
pub(super) struct Assembly<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) record: Record,
    pub(super) kubernetes: &'a Kubernetes,
    pub(super) tools: &'a Path,
}

impl Assembly<'_> {
    /// Starts whatever does not run and waits until all nodes are Ready.
    pub(super) fn start(&self, program: &Path, report: &Report) -> Result<()> {
        let version = self.kubernetes.version();
        let step = report.step(format!("Starting the control plane (Kubernetes {version})"));
        let authority = self.authority()?;
        let control_plane = self.control_plane(&authority);
        let server = control_plane.endpoints.url();
        let admin = Subject {
            common_name: "admin",
            organization: Some("system:masters"),
            ..Subject::default()
        };
        let admin = authority.kubeconfig("admin", &server, &admin)?;
        let hub = self.hub().ensure()?;
        self.start_registry(program, hub)?;
        // Nodes need the API server only to register, so they start while it does.
        let nodes = self.nodes();
        thread::scope(|scope| {
            let start = |node: &Node| node.ensure(hub, &authority, &server);
            let starting = nodes
                .iter()
                .map(|node| scope.spawn(move || start(node)))
                .collect();
            control_plane.ensure(hub, &admin)?;
            join_all(starting)
        })?;
        step.done(&format!("API server at {server}"));

        let step = report.step(format!("Waiting for {} nodes to be Ready", nodes.len()));
        self.remove_surplus_nodes()?;
        for crds in CRDS {
            process::feed(self.kubectl().args(["apply", "-f", "-"]), crds)?;
        }
        self.wait_ready(&nodes, |ready| {
            step.progress(ready as u64, nodes.len() as u64);
        })?;
        step.done("");
        Ok(())
    }

    /// Starts one node again.
    pub(super) fn start_node(&self, node: &Node) -> Result<()> {
        let server = Endpoints::of_cluster(self.network()).url();
        node.ensure(self.running_hub()?, &self.authority()?, &server)
    }

    /// Every part, in the order of its start.
    pub(super) fn parts(&self) -> Vec<Part> {
        let part = |name: String, pid| Part { name, pid };
        let mut parts = vec![part("hub".to_owned(), self.hub().pid())];
        let control_plane = self.cluster.directory.join("control-plane");
        for name in control_plane::DAEMONS {
            parts.push(part(
                (*name).to_owned(),
                Daemon::new(&control_plane, name).pid(),
            ));
        }
        let registry = process::processes_below(&self.cluster.directory.join("registry"));
        parts.push(part("registry".to_owned(), registry.first().copied()));
        for node in self.nodes() {
            parts.push(part(node.name().to_owned(), node.pid()));
            for daemon in node.daemons() {
                let name = format!("{}/{}", node.name(), daemon.program());
                parts.push(part(name, daemon.pid()));
            }
        }
        parts
    }

    /// Every process runs, every node is Ready.
    pub(super) fn is_whole(&self) -> bool {
        self.parts().iter().all(|part| part.pid.is_some())
            && self.ready_nodes() == self.record.nodes
    }

    /// All nodes the cluster should have.
    pub(super) fn nodes(&self) -> Vec<Node<'_>> {
        (0..self.record.nodes)
            .map(|index| self.node_at(index))
            .collect()
    }

    /// One of them by name.
    pub(super) fn node(&self, name: &str) -> Result<Node<'_>> {
        let nodes = self.nodes();
        let names: Vec<&str> = nodes.iter().map(Node::name).collect();
        let known = names.join(", ");
        match nodes.into_iter().find(|node| node.name() == name) {
            Some(node) => Ok(node),
            None => refused(format!("there is no node `{name}`: the nodes are {known}")),
        }
    }

    /// The hub's first process, if the hub is whole.
    pub(super) fn running_hub(&self) -> Result<Pid> {
        match self.hub().pid() {
            Some(hub) => Ok(hub),
            None => refused(format!(
                "parts of cluster `{}` do not run: repair it with `./x up`",
                self.cluster.name
            )),
        }
    }

    fn network(&self) -> Network {
        Network::new(self.record.network)
    }

    fn authority(&self) -> Result<Authority> {
        Authority::open(&self.cluster.directory.join("pki"))
    }

    fn hub(&self) -> Hub {
        let directory = self.cluster.directory.join("hub");
        Hub::new(&directory, self.tools.join("catatonit"), self.network())
    }

    fn control_plane<'b>(&'b self, authority: &'b Authority) -> ControlPlane<'b> {
        ControlPlane {
            directory: self.cluster.directory.join("control-plane"),
            kubernetes: self.kubernetes,
            etcd: etcd(self.kubernetes, self.tools),
            endpoints: Endpoints::of_cluster(self.network()),
            authority,
        }
    }

    fn node_at(&self, index: usize) -> Node<'_> {
        let Cluster { name, directory } = self.cluster;
        let node = Node::new(
            index,
            name,
            directory,
            self.network(),
            self.kubernetes,
            self.tools,
        );
        match &self.record.taint {
            Some(taint) => node.registering_with(taint),
            None => node,
        }
    }

    fn start_registry(&self, program: &Path, hub: Pid) -> Result<()> {
        let store = Store::open()?;
        image::build_base_images(&store, self.tools)?;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let arguments = [
            "registry".to_owned(),
            format!("--listen={}:{REGISTRY_PORT}", self.network().hub()),
            format!("--store={}", store.directory().display()),
        ];
        let inside = Some(Namespaces::network_and_processes(hub));
        Daemon::new(&self.cluster.directory.join("registry"), &name)
            .start(program, &arguments, inside)
            .map(drop)
    }

    fn kubectl(&self) -> std::process::Command {
        kubectl(self.kubernetes, &self.cluster.kubeconfig())
    }

    /// How many nodes are Ready, as far as an API server tells that has just started and may be busy.
    fn ready_nodes(&self) -> usize {
        let path = "jsonpath={range .items[*]}\
                    {.status.conditions[?(@.type==\"Ready\")].status}{\"\\n\"}{end}";
        let mut list = self.kubectl();
        let said = capture(list.args(["get", "nodes", "--request-timeout=5s", "-o", path]));
        let said = said.unwrap_or_default();
        said.lines().filter(|line| *line == "True").count()
    }

    fn wait_ready(&self, nodes: &[Node], progress: impl Fn(usize)) -> Result<()> {
        let log = self.cluster.directory.join("nodes/node-a/kubelet.log");
        wait_until(
            "the nodes to be Ready",
            Duration::from_secs(120),
            &log,
            || {
                for daemon in nodes.iter().flat_map(Node::daemons) {
                    daemon.must_run()?;
                }
                let ready = self.ready_nodes();
                progress(ready);
                Ok(ready == nodes.len())
            },
        )?;
        // Pods are refused until the controller manager has made the account they run as.
        let log = self
            .cluster
            .directory
            .join("control-plane/kube-controller-manager.log");
        wait_until(
            "the default ServiceAccount",
            Duration::from_secs(60),
            &log,
            || Ok(capture(self.kubectl().args(["get", "serviceaccount", "default"])).is_ok()),
        )
    }

    /// Nodes beyond the wanted number, left from when there were more.
    fn remove_surplus_nodes(&self) -> Result<()> {
        for index in self.record.nodes..NODES {
            let node = self.node_at(index);
            if node.directory().exists() {
                node.stop()?;
                crate::loops::detach_below(node.directory())?;
                let delete = ["delete", "node", "--ignore-not-found", node.name()];
                capture(self.kubectl().args(delete))?;
                places::remove(node.directory())?;
            }
        }
        Ok(())
    }
}

/// The user's etcd if it came with the Kubernetes binaries, else Debian's.
pub(crate) fn etcd(kubernetes: &Kubernetes, tools: &Path) -> PathBuf {
    let given = kubernetes.program("etcd");
    if given.is_file() {
        given
    } else {
        tools.join("etcd")
    }
}

/// Waits for all and returns the first error.
pub(super) fn join_all<T>(threads: Vec<thread::ScopedJoinHandle<'_, Result<T>>>) -> Result<()> {
    let mut first: Option<Error> = None;
    for thread in threads {
        match thread.join() {
            Ok(Err(error)) => first = first.or(Some(error)),
            Ok(Ok(_)) => {}
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    first.map_or(Ok(()), Err)
}
