//! A driver under test with its array and its clients, and verbs for what a cluster does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::{ClientMetrics, ServerMetrics};
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::node_client::NodeClient;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume,
};
use stowage_csi::proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerModifyVolumeRequest,
    CreateVolumeRequest, DeleteVolumeRequest, NodePublishVolumeRequest, NodeUnpublishVolumeRequest,
    Volume, VolumeCapability,
};
use stowage_csi::server::Shutdown;
use stowage_service::Health;
use stowage_sim::weka::control::{Fault, Trouble};
use stowage_sim::weka::{Array, Frontend, FrontendOptions, Options};
use stowage_weka::{Args, Metrics, Reports, StartError, run};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::helper;

pub const GIB: u64 = 1 << 30;

/// Where the driver puts what was deleted.
pub const TRASH: &str = ".__internal__wekafs-async-delete";

/// The one container of the node's client.
pub const CONTAINER: &str = "client";

#[derive(Parser)]
pub struct Command {
    #[command(flatten)]
    pub args: Args,
}

pub type Map = BTreeMap<String, String>;

/// A simulated array, and its client on this machine.
pub struct Cluster {
    // Goes first: it tells the array that it goes.
    _frontend: Frontend,
    pub array: Array,
    /// The files of its filesystem `default`.
    pub files: PathBuf,
}

impl Cluster {
    /// An array without a client.
    pub async fn start_array(directory: &Path, change: impl FnOnce(&mut Options)) -> Array {
        stowage_service::client::install_crypto_provider();
        let mut options = Options::new(directory.join("array"));
        change(&mut options);
        Array::start(options).await.unwrap()
    }

    pub async fn start(directory: &Path, change: impl FnOnce(&mut Options)) -> Self {
        let array = Self::start_array(directory, change).await;
        let uid = array
            .control()
            .filesystem_uid("default")
            .await
            .unwrap()
            .unwrap();
        let files = directory.join("array/filesystems").join(uid).join("root");
        let frontend = client(directory, &array, CONTAINER).await;
        helper::install(directory);
        Self {
            _frontend: frontend,
            array,
            files,
        }
    }

    /// The data of a successful call to the array.
    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let http = reqwest::Client::new();
        let login = json!({ "username": "admin", "password": "admin", "org": "Root" });
        let login = http
            .post(format!("{}/login", self.array.url()))
            .json(&login)
            .send();
        let login: Value = login.await.unwrap().json().await.unwrap();
        let token = login["data"]["access_token"].as_str().unwrap().to_owned();
        let url = format!("{}/{path}", self.array.url());
        let mut request = http
            .request(method.parse().unwrap(), url)
            .bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        let mut answer: Value = response.json().await.unwrap();
        assert!(status.is_success(), "{method} {path}: {answer}");
        answer["data"].take()
    }

    /// The quota of a directory: hard and soft limit.
    pub async fn quota(&self, path: &str) -> (u64, u64) {
        let uid = self
            .array
            .control()
            .filesystem_uid("default")
            .await
            .unwrap()
            .unwrap();
        let resolved = self
            .call(
                "GET",
                &format!("fileSystems/{uid}/resolvePath?path=/{path}"),
                None,
            )
            .await;
        let inode = resolved["inode_id"].as_str().unwrap().to_owned();
        let quota = self
            .call("GET", &format!("fileSystems/{uid}/quota/{inode}"), None)
            .await;
        assert_eq!(quota["status"], "ACTIVE");
        (
            quota["hard_limit_bytes"].as_u64().unwrap(),
            quota["soft_limit_bytes"].as_u64().unwrap(),
        )
    }

    /// Makes another filesystem.
    pub async fn add_filesystem(&self, name: &str, more: &Value) {
        let mut body = json!({ "name": name, "group_name": "default", "total_capacity": GIB });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.call("POST", "fileSystems", Some(body)).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    pub fn secret(&self) -> Map {
        secret_of(&self.array, &[])
    }

    pub fn secret_with(&self, more: &[(&str, &str)]) -> Map {
        secret_of(&self.array, more)
    }

    pub async fn fault(&self, method: &str, path: &str, times: u32, trouble: Trouble) {
        let fault = Fault {
            method: Some(method.to_owned()),
            path: Some(path.to_owned()),
            times: Some(times),
            trouble,
            ..Fault::default()
        };
        self.array.control().add_fault(fault).await.unwrap();
    }

    /// The directories of volumes.
    pub fn volumes(&self) -> Vec<String> {
        names(&self.files.join("csi-volumes"))
    }

    /// What waits for its removal.
    pub fn trash(&self) -> Vec<String> {
        names(&self.files.join(TRASH))
    }
}

pub fn secret_of(array: &Array, more: &[(&str, &str)]) -> Map {
    let mut secret = map(&[
        ("username", "admin"),
        ("password", "admin"),
        ("organization", "Root"),
        ("endpoints", &array.endpoints().join(",")),
        ("scheme", array.scheme()),
    ]);
    secret.extend(map(more));
    secret
}

pub fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The Weka client of this machine for a cluster.
pub async fn client(directory: &Path, array: &Array, container: &str) -> Frontend {
    let mut options = FrontendOptions::new(array, container, directory.join("sockets"));
    options.node.proc_modules = Some(directory.join("modules"));
    options.node.proc_interface = Some(directory.join("interface"));
    Frontend::start(&options).await.unwrap()
}

/// The flags of a driver whose files are all below `directory`.
pub fn flags(directory: &Path, more: &[&str]) -> Vec<String> {
    let place = |flag: &str, name: &str| format!("--{flag}={}", directory.join(name).display());
    let mut flags = vec![
        "weka".to_owned(),
        "--nodeid=node-1".to_owned(),
        place("endpoint", "csi.sock"),
        place("mount-base", "mounts"),
        place("legacy-volume-access", "legacy"),
        place("proc-modules", "modules"),
        place("proc-wekafs-interface", "interface"),
    ];
    flags.extend(more.iter().map(|flag| (*flag).to_owned()));
    flags
}

/// Runs a driver until it is stopped.
pub async fn drive(flags: Vec<String>, stop: CancellationToken) -> Result<(), StartError> {
    let reports = Reports {
        server: ServerMetrics::default(),
        weka: Metrics::default(),
        health: Health::default(),
    };
    let shutdown = Shutdown {
        token: stop,
        grace: Duration::from_secs(5),
    };
    run(Command::parse_from(flags).args, reports, shutdown).await
}

pub struct Rig {
    pub directory: PathBuf,
    pub secret: Map,
    pub controller: ControllerClient<Connection>,
    pub node: NodeClient<Connection>,
    stop: CancellationToken,
    served: JoinHandle<Result<(), StartError>>,
}

impl Rig {
    pub fn start(directory: &Path, cluster: &Cluster, more: &[&str]) -> Self {
        let stop = CancellationToken::new();
        let served = tokio::spawn(drive(flags(directory, more), stop.clone()));
        let mut rig = Self::of_process(directory, cluster);
        rig.stop = stop;
        rig.served = served;
        rig
    }

    /// Clients of a driver that runs elsewhere.
    pub fn of_process(directory: &Path, cluster: &Cluster) -> Self {
        let endpoint = Endpoint::try_from(directory.join("csi.sock").as_path()).unwrap();
        let options = ClientOptions {
            timeout: Duration::from_secs(20),
            patience: Duration::from_secs(10),
            metrics: ClientMetrics::default(),
        };
        let connection = Connection::new(&endpoint, options);
        Self {
            directory: directory.to_owned(),
            secret: cluster.secret(),
            controller: ControllerClient::new(connection.clone()),
            node: NodeClient::new(connection),
            stop: CancellationToken::new(),
            served: tokio::spawn(async { Ok(()) }),
        }
    }

    /// With other secrets.
    pub fn with_secret(mut self, secret: Map) -> Self {
        self.secret = secret;
        self
    }

    /// Without secrets: the model without API.
    pub fn legacy(self) -> Self {
        self.with_secret(Map::new())
    }

    pub async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.served).await.unwrap().unwrap();
        assert_eq!(
            self.mounts("mounts"),
            Vec::<String>::new(),
            "nothing stays mounted"
        );
    }

    /// What is mounted below a directory of the test.
    pub fn mounts(&self, below: &str) -> Vec<String> {
        let below = self.directory.join(below);
        let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let points = text
            .lines()
            .map(|line| line.split(' ').nth(4).unwrap().to_owned());
        points
            .filter(|point| Path::new(point).starts_with(&below))
            .collect()
    }

    pub fn request(&self, name: &str, bytes: u64, more: &[(&str, &str)]) -> CreateVolumeRequest {
        let mut parameters = map(&[("volumeType", "dir/v1"), ("filesystemName", "default")]);
        parameters.extend(map(more));
        parameters.retain(|_, value| value != "-");
        CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: range(bytes),
            volume_capabilities: vec![capability(Mode::MultiNodeMultiWriter)],
            parameters,
            secrets: self.secret.clone(),
            ..CreateVolumeRequest::default()
        }
    }

    pub async fn send(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let answer = self.controller.clone().create_volume(request).await?;
        Ok(answer.into_inner().volume.unwrap())
    }

    pub async fn create(
        &self,
        name: &str,
        bytes: u64,
        more: &[(&str, &str)],
    ) -> Result<Volume, Status> {
        self.send(self.request(name, bytes, more)).await
    }

    pub async fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            secrets: self.secret.clone(),
        };
        self.controller.clone().delete_volume(request).await?;
        Ok(())
    }

    pub async fn expand(&self, id: &str, bytes: u64) -> Result<i64, Status> {
        let request = ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            capacity_range: range(bytes),
            secrets: self.secret.clone(),
            ..ControllerExpandVolumeRequest::default()
        };
        let answer = self
            .controller
            .clone()
            .controller_expand_volume(request)
            .await?;
        Ok(answer.into_inner().capacity_bytes)
    }

    pub async fn modify(&self, id: &str, parameters: &[(&str, &str)]) -> Result<(), Status> {
        let request = ControllerModifyVolumeRequest {
            volume_id: id.to_owned(),
            mutable_parameters: map(parameters),
            secrets: self.secret.clone(),
        };
        self.controller
            .clone()
            .controller_modify_volume(request)
            .await?;
        Ok(())
    }

    /// Where a pod has its volume.
    pub fn target(&self, pod: &str) -> PathBuf {
        self.directory.join("pods").join(pod).join("mount")
    }

    pub async fn publish(&self, id: &str, pod: &str, mode: Mode) -> Result<PathBuf, Status> {
        let target = self.target(pod);
        let request = NodePublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: target.to_str().unwrap().to_owned(),
            volume_capability: Some(capability(mode)),
            secrets: self.secret.clone(),
            ..NodePublishVolumeRequest::default()
        };
        self.node.clone().node_publish_volume(request).await?;
        Ok(target)
    }

    pub async fn unpublish(&self, id: &str, pod: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            target_path: self.target(pod).to_str().unwrap().to_owned(),
        };
        self.node.clone().node_unpublish_volume(request).await?;
        Ok(())
    }
}

pub fn map(entries: &[(&str, &str)]) -> Map {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    entries.iter().map(owned).collect()
}

pub fn range(bytes: u64) -> Option<CapacityRange> {
    (bytes > 0).then(|| CapacityRange {
        required_bytes: bytes.try_into().unwrap(),
        limit_bytes: 0,
    })
}

pub fn capability(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

pub fn block() -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..capability(Mode::SingleNodeWriter)
    }
}

/// Waits for something that happens in the background.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} does not come");
}
