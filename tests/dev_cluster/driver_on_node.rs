//! A CSI driver in pods, known to the kubelet, and reached through its sockets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use devcluster::cluster::Cluster;
use devcluster::testing::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::{ClientMetrics, ServerMetrics};
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::registration::{DriverRegistration, KubeletVerdict};
use stowage_csi::server::{Shutdown, Socket, serve};
use stowage_testing::{Look, Turn};
use stowage_tests::{eventually, find_ready_on, ready_pod_on, text};
use tokio::runtime::Runtime;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::service::Routes;

use super::shape::Shape;

/// What the samples make for the whole cluster.
const KINDS: &str = "csidriver,storageclass,clusterrole,clusterrolebinding";

/// A driver under test. Everything it made goes with it.
pub struct DriverOnNode<'a> {
    pub name: String,
    pub node: &'static str,
    shape: Shape,
    namespace: &'a Namespace<'a>,
    cluster: &'a Cluster,
    runtime: Runtime,
    /// Short paths to the node's kubelet directory: a socket's path may have 107 bytes.
    short: tempfile::TempDir,
    /// The socket of the controller service, below the kubelet's directory.
    socket: PathBuf,
    registration: Option<DropGuard>,
    /// Dropped last: others with the same name wait for it.
    _turn: Option<Turn>,
}

impl<'a> DriverOnNode<'a> {
    /// Starts the embedded driver in this shape and waits until the kubelet of `node` knows it.
    pub fn start(
        cluster: &'a Cluster,
        namespace: &'a Namespace<'a>,
        node: &'static str,
        shape: Shape,
    ) -> Self {
        let turn = shape.turn();
        let name = shape.driver_name(namespace.name());
        let kubelet = cluster
            .directory()
            .join("nodes")
            .join(node)
            .join("lib/kubelet");
        let short = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&kubelet, short.path().join("k")).unwrap();
        // From here on it is taken away again however the test ends.
        let mut driver = Self {
            socket: Path::new("plugins").join(&name).join("csi.sock"),
            name,
            node,
            shape,
            namespace,
            cluster,
            runtime: Runtime::new().unwrap(),
            short,
            registration: None,
            _turn: turn,
        };
        driver.label_node(&format!("={}", driver.name)).unwrap();
        let manifest = shape.manifest(&driver.name, namespace.name());
        namespace.apply(&manifest).unwrap();
        driver.wait_for_pods();
        if !shape.has_sidecar() {
            driver.register();
        }
        driver.wait_until_known(node);
        driver
    }

    /// Waits for the node plugin and, where there is one, for the pod that only the controller has.
    fn wait_for_pods(&mut self) {
        ready_pod_on(self.namespace, self.shape.node_label(), self.node);
        if let Some(label) = self.shape.controller_label() {
            let pod = ready_pod_on(self.namespace, label, self.node);
            let volumes = format!("pods/{}/volumes", text(&pod["metadata"]["uid"]));
            self.socket = Path::new(&volumes).join("kubernetes.io~empty-dir/socket/csi.sock");
        }
    }

    fn register(&mut self) {
        let folder = self.short.path().join("k/plugins_registry");
        self.registration = Some(register(&self.runtime, &self.name, &folder));
    }

    /// Waits until the kubelet of `node` knows the driver.
    pub fn wait_until_known(&self, node: &str) {
        eventually("the kubelet knows the driver", || {
            let look = Look::at(&self.cluster.kubeconfig());
            let node = look.get("csinode", "", node)?;
            let mut known = node["spec"]["drivers"].as_array()?.iter();
            known
                .any(|it| it["name"] == self.name.as_str())
                .then_some(())
        });
    }

    /// `=value` or `-`, for shapes that choose their node by a label.
    fn label_node(&self, change: &str) -> devcluster::error::Result<()> {
        let Some(label) = self.shape.node_selector(&self.name) else {
            return Ok(());
        };
        let change = format!("{label}{change}");
        let labelled = self.cluster.kubectl(&["label", "node", self.node, &change]);
        labelled.map(|_| ())
    }

    /// Calls the driver's controller service.
    pub fn controller<T>(&self, call: impl AsyncFnOnce(ControllerClient<Connection>) -> T) -> T {
        let socket = self.short.path().join("k").join(&self.socket);
        let endpoint = Endpoint::try_from(socket.as_path()).unwrap();
        self.runtime.block_on(async {
            // Inside the runtime: a connection is made on it.
            let connection = Connection::new(&endpoint, options());
            call(ControllerClient::new(connection)).await
        })
    }

    /// The node plugin's process, as the machine sees it.
    pub fn node_process(&self) -> Option<Pid> {
        self.process(self.shape.node_label())
    }

    /// The process of the driver in the pod with this label. By its container: on a machine with several clusters
    /// there may be many with the same arguments.
    pub fn process(&self, label: &str) -> Option<Pid> {
        let pod = find_ready_on(self.namespace, label, self.node)?;
        let container = text(&pod["status"]["containerStatuses"][0]["containerID"]);
        process_of(container)
    }

    /// Its state directory, as this machine sees it.
    pub fn state(&self) -> PathBuf {
        self.state_on(self.node)
    }

    fn state_on(&self, node: &str) -> PathBuf {
        let node = self.cluster.directory().join("nodes").join(node);
        node.join(self.shape.state_directory(&self.name))
    }

    /// What the state directory holds of volumes and snapshots.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files_on(self.node)
    }

    /// What the state directory of another node holds.
    pub fn files_on(&self, node: &str) -> Vec<PathBuf> {
        let list = |directory: PathBuf| {
            let entries = std::fs::read_dir(directory).unwrap();
            entries.map(|entry| entry.unwrap().path())
        };
        // The nodes that use the directory stay noted.
        let areas = list(self.state_on(node)).filter(|area| !area.ends_with("nodes"));
        let mut files: Vec<_> = areas.flat_map(list).collect();
        files.sort();
        files
    }
}

impl Drop for DriverOnNode<'_> {
    fn drop(&mut self) {
        // The namespace of the test goes by itself; these belong to the whole cluster.
        let _ = self
            .namespace
            .kubectl(&["delete", KINDS, &self.name, "--ignore-not-found"]);
        let _ = self.label_node("-");
    }
}

/// The first process of a container, by the id that the kubelet reports.
pub fn process_of(container: &str) -> Option<Pid> {
    let (_, id) = container.split_once("://")?;
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut ours = numbers.filter(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|at| at.contains(id))
    });
    ours.next().map(Pid::from_raw)
}

/// `kill -9` of a container of the one pod that `pods` lists as JSON, as soon as it runs.
pub fn kill_container(name: &str, pods: impl Fn() -> devcluster::error::Result<String>) {
    let killed = eventually(&format!("container {name} runs"), || {
        let pods: Value = serde_json::from_str(&pods().ok()?).ok()?;
        let statuses = pods["items"][0]["status"]["containerStatuses"].as_array()?;
        let status = statuses.iter().find(|status| status["name"] == name)?;
        status["state"]["running"].as_object()?;
        process_of(text(&status["containerID"]))
    });
    kill(killed, Signal::SIGKILL).unwrap();
}

/// Snapshots copy gigabytes; a driver that restarts is waited for.
fn options() -> ClientOptions {
    ClientOptions {
        timeout: Duration::from_secs(120),
        patience: Duration::from_secs(60),
        metrics: ClientMetrics::default(),
    }
}

fn register(runtime: &Runtime, driver: &str, folder: &Path) -> DropGuard {
    let socket = format!("/var/lib/kubelet/plugins/{driver}/csi.sock");
    let registration = DriverRegistration::new(driver, &socket);
    let mut verdict = registration.verdict();
    let endpoint = Endpoint::try_from(folder.join(format!("{driver}-reg.sock")).as_path()).unwrap();
    let token = CancellationToken::new();
    let shutdown = Shutdown {
        token: token.clone(),
        grace: Duration::from_secs(1),
    };
    runtime.spawn(async move {
        let socket = Socket::bind(&endpoint).unwrap();
        let routes = Routes::new(registration.into_service());
        serve(socket, routes, ServerMetrics::default(), shutdown)
            .await
            .unwrap();
    });
    runtime.block_on(async {
        let registered = verdict.wait_for(|said| *said != KubeletVerdict::Pending);
        let said = tokio::time::timeout(Duration::from_secs(60), registered).await;
        assert_eq!(
            *said.expect("the kubelet asks").unwrap(),
            KubeletVerdict::Registered
        );
    });
    token.drop_guard()
}
