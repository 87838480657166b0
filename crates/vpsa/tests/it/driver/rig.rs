//! A driver under test with its API server, its array and its node.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::{Value, json};
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::{ClientMetrics, ServerMetrics};
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_csi::proto::csi::node_client::NodeClient;
use stowage_service::{Health, Metrics, Process, Tasks};
use stowage_sim::vpsa::{Array, Options};
use stowage_testing::Lent;
use stowage_vpsa::{Args, StartError, run};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::driver::host::HostProcess;
use crate::driver::process::NodeProcess;
use crate::driver::tools;

/// How long anything may take, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(180);

pub const NODE: &str = "node-1";

#[derive(Parser)]
pub struct Command {
    #[command(flatten)]
    pub args: Args,
}

pub struct Rig {
    // First, so that it ends before its array does.
    _host: HostProcess,
    pub server: Lent,
    pub array: Array,
    directory: PathBuf,
    pub identity: IdentityClient<Connection>,
    pub controller: ControllerClient<Connection>,
    pub node: NodeClient<Connection>,
    /// How long a call may take.
    pub request_timeout: &'static str,
    flags: &'static [&'static str],
    address: IpAddr,
    node_apart: Option<NodeProcess>,
    driver: Option<(CancellationToken, JoinHandle<Result<(), StartError>>)>,
}

/// What can be another than usual.
pub struct Setting {
    pub array: Options,
    /// Somebody joins paths to disks.
    pub has_multipathd: bool,
    /// Further flags of the driver.
    pub flags: &'static [&'static str],
    /// The node's part of the driver is a process of its own, which can be killed.
    pub node_apart: bool,
    /// The node's address.
    pub node: IpAddr,
}

/// An address of this machine that no other test uses: all of 127/8 is ours, and portals have a fixed port.
pub fn own_address(number: u8) -> IpAddr {
    let [high, low] = u16::try_from(std::process::id() % 60_000)
        .unwrap()
        .to_be_bytes();
    Ipv4Addr::new(127, 1 + high, low, number).into()
}

impl Rig {
    /// With one class, which is the default, and one array in it.
    pub async fn start(directory: &Path, class: Value) -> Self {
        Self::with(directory, class, |_| {}).await
    }

    /// The same with another array, or another node.
    pub async fn with(directory: &Path, class: Value, change: impl FnOnce(&mut Setting)) -> Self {
        let mut setting = Setting {
            array: Options::new(directory.join("array")),
            has_multipathd: true,
            flags: &[],
            node_apart: false,
            node: own_address(2),
        };
        setting.array.no_data = false;
        setting.array.address = vec![own_address(1)];
        change(&mut setting);
        stowage_service::client::install_crypto_provider();
        tools::install(directory);
        let path = |name: &str| directory.join(name);
        std::fs::write(
            path("initiatorname.iscsi"),
            "InitiatorName=iqn.2026-01.test:node-1\n",
        )
        .unwrap();
        std::fs::create_dir_all(path("keys")).unwrap();
        for (name, letter) in [("GLOBAL_ENCRYPTION_KEY", "k"), ("CHAP_ENCRYPTION_KEY", "c")] {
            std::fs::write(path("keys").join(name), letter.repeat(32)).unwrap();
        }
        let array = Array::start(setting.array).await.unwrap();
        let host = HostProcess::start(directory, setting.node, setting.has_multipathd).await;
        let server = api_server(&array, &class);
        let endpoint = Endpoint::try_from(path("csi.sock").as_path()).unwrap();
        let connection = connection(&endpoint);
        let mut rig = Self {
            _host: host,
            server,
            array,
            directory: directory.to_owned(),
            identity: IdentityClient::new(connection.clone()),
            controller: ControllerClient::new(connection.clone()),
            node: NodeClient::new(connection),
            request_timeout: "180s",
            flags: setting.flags,
            address: setting.node,
            node_apart: None,
            driver: None,
        };
        if setting.node_apart {
            rig.start_node();
        }
        rig.start_driver();
        rig.until("vscnode", NODE, |it| it["spec"]["block"]["IQN"].is_string())
            .await;
        rig.until("vpsa", "one", |it| it["status"]["state"] == "Ready")
            .await;
        rig
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Starts the node's part of the driver as a process of its own.
    pub fn start_node(&mut self) {
        let mut flags = self.driver_flags("node.sock");
        flags.push("--mode=node".to_owned());
        self.node_apart = Some(NodeProcess::start(&self.directory, &flags));
        let endpoint = Endpoint::try_from(self.path("node.sock").as_path()).unwrap();
        self.node = NodeClient::new(connection(&endpoint));
    }

    /// Kills it: it does not come to its end, whatever it does.
    pub fn kill_node(&mut self) {
        drop(self.node_apart.take().unwrap());
    }

    fn driver_flags(&self, socket: &str) -> Vec<String> {
        let flag = |flag: &str, name: &str| format!("--{flag}={}", self.path(name).display());
        let flags = [
            "vpsa".to_owned(),
            format!("--nodeid={NODE}"),
            format!("--node-ip={}", self.address),
            // Its own mounts and network, but by the way that leads out of a container.
            format!("--host-process={}", std::process::id()),
            flag("endpoint", socket),
            flag("initiator-name", "initiatorname.iscsi"),
            flag("iscsi-records", "nodes"),
            flag("by-path", "by-path"),
            flag("sysfs", "sysfs"),
            flag("mapper", "mapper"),
            flag("keys", "keys"),
            // The kernel may refuse to grow an ext4 in use.
            "--default-fstype=xfs".to_owned(),
            "--monitor-interval=500ms".to_owned(),
            "--refresh-period=2s".to_owned(),
            // What is left of a volume is counted.
            "--empty-recycle-bin".to_owned(),
            format!("--request-timeout={}", self.request_timeout),
            format!("--kubeconfig={}", self.server.kubeconfig().display()),
        ];
        let more = self.flags.iter().map(|flag| (*flag).to_owned());
        flags.into_iter().chain(more).collect()
    }

    pub fn start_driver(&mut self) {
        let mut flags = self.driver_flags("csi.sock");
        if self.node_apart.is_some() {
            flags.push("--mode=controller".to_owned());
        }
        let shutdown = CancellationToken::new();
        let process = Process {
            health: Health::default(),
            metrics: Metrics::new(),
            tasks: Tasks::new(shutdown.clone()),
            shutdown: shutdown.clone(),
        };
        let args = Command::parse_from(flags).args;
        let work = run(
            args,
            process,
            ServerMetrics::default(),
            Duration::from_secs(5),
        );
        self.driver = Some((shutdown, tokio::spawn(work)));
    }

    /// Stops the driver as SIGTERM does.
    pub async fn stop_driver(&mut self) {
        let (shutdown, served) = self.driver.take().unwrap();
        shutdown.cancel();
        served.await.unwrap().unwrap();
    }

    /// An object, once it is so.
    pub async fn until(&self, kind: &str, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let kind = format!("{kind}.storage.zadara.com");
            let words = ["get", &kind, name, "-o", "json", "--ignore-not-found"];
            let text = self.server.kubectl(&words).unwrap();
            let object = serde_json::from_str(&text).unwrap_or(Value::Null);
            if holds(&object) {
                return object;
            }
            assert!(Instant::now() < deadline, "{object:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Type and message of an Event about an object of the driver, once there is one with this reason.
    pub async fn event(&self, name: &str, reason: &str) -> (String, String) {
        let deadline = Instant::now() + PATIENCE;
        let about = format!("involvedObject.name={name},reason={reason}");
        let words = [
            "get",
            "events",
            "-A",
            "-o",
            "json",
            "--field-selector",
            &about,
        ];
        loop {
            let text = self.server.kubectl(&words).unwrap();
            let found: Value = serde_json::from_str(&text).unwrap();
            let event = &found["items"][0];
            if let (Some(kind), Some(message)) = (event["type"].as_str(), event["message"].as_str())
            {
                return (kind.to_owned(), message.to_owned());
            }
            assert!(Instant::now() < deadline, "no Event {reason} about {name}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Volumes, snapshots and Server records that the array has.
    pub async fn on_array(&self) -> (usize, usize, usize) {
        let objects = self.array.control().objects().await.unwrap();
        (
            objects.volumes.len(),
            objects.snapshots.len(),
            objects.servers.len(),
        )
    }

    /// How many iSCSI sessions the array has.
    pub async fn sessions(&self) -> usize {
        let sessions = self.array.control().sessions().await.unwrap();
        sessions.iter().filter(|it| it.protocol == "iscsi").count()
    }
}

impl Drop for Rig {
    /// A test that failed must not end with mounts that nobody serves.
    fn drop(&mut self) {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = table.lines().filter_map(|line| line.split(' ').nth(4));
        let points: Vec<&str> = points.collect();
        for point in points.into_iter().rev() {
            let point = Path::new(point);
            if point.starts_with(&self.directory) {
                let _ = unmount(point, UnmountFlags::empty());
            }
        }
    }
}

fn connection(endpoint: &Endpoint) -> Connection {
    let options = ClientOptions {
        timeout: Duration::from_secs(60),
        patience: Duration::from_secs(30),
        metrics: ClientMetrics::default(),
    };
    Connection::new(endpoint, options)
}

fn api_server(array: &Array, class: &Value) -> Lent {
    let server = stowage_testing::api_server_with(&["storage.zadara.com.yaml"]);
    let mut spec = json!({"displayName": "gold", "isDefault": true});
    spec.as_object_mut()
        .unwrap()
        .extend(class.as_object().unwrap().clone());
    // A VSCNode goes with its Node.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
    let class = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VSCStorageClass",
        "metadata": {"name": "gold"}, "spec": spec});
    let vpsa = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VPSA", "metadata": {"name": "one"},
        "spec": {"VSCStorageClassName": "gold", "displayName": "one", "hostname": array.hostname(),
            "token": array.access_key(), "tls": {"enabled": false}}});
    let file = tempfile::NamedTempFile::new().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [node, class, vpsa]});
    std::fs::write(file.path(), list.to_string()).unwrap();
    server
        .kubectl(&[
            "create",
            "--validate=false",
            "-f",
            file.path().to_str().unwrap(),
        ])
        .unwrap();
    server
}
