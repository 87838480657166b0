//! A driver in memory, a sidecar beside it, and contents of snapshots.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Parser;
use devcluster::testing::ApiServer;
use k8s_openapi::api::core::v1::{Event, Namespace, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use stowage_api::CrdGroup;
use stowage_api::snapshot::{
    VolumeGroupSnapshotClass, VolumeGroupSnapshotContent, VolumeSnapshotClass,
    VolumeSnapshotContent, names,
};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::proto::csi::controller_server::Controller;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use stowage_csi::proto::csi::{CreateVolumeRequest, VolumeCapability};
use stowage_memory_driver::{MemoryDriver, Profile, Serving};
use stowage_service::Process;
use stowage_service::{Health, Metrics, Tasks};
use stowage_sidecar::controller::{self, ControllerArgs, ControllerError};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[path = "../shared/objects.rs"]
mod objects;

pub use self::objects::{SOON, create, eventually, merge};

/// A driver of its own name in a namespace of its own.
pub struct Rig {
    pub server: &'static ApiServer,
    pub driver: MemoryDriver,
    /// Of the driver, and of its classes.
    pub name: String,
    pub namespace: String,
    pub client: Client,
    directory: TempDir,
    _serving: Serving,
}

/// A sidecar that runs in this process.
pub struct Sidecar {
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), ControllerError>>,
}

#[derive(Parser)]
#[command(args_override_self = true)]
struct Command {
    #[command(flatten)]
    args: ControllerArgs,
}

impl Rig {
    /// A rig whose driver can do everything but what `change` takes away.
    pub async fn new(change: impl FnOnce(Profile) -> Profile) -> Self {
        let server = tokio::task::spawn_blocking(with_kinds).await.unwrap();
        Self::on(server, change).await
    }

    /// The same on another server, which may not have the kinds of snapshots.
    pub async fn on(server: &'static ApiServer, change: impl FnOnce(Profile) -> Profile) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("snap{number}-{}.stowage.test", std::process::id());
        let namespace = format!("snap{number}-{}", std::process::id());
        let client = objects::connect(server.kubeconfig()).await;
        let object = json!({"metadata": {"name": namespace}});
        create::<Namespace>(&Api::all(client.clone()), object).await;
        let mut profile = Profile::named(&name);
        profile.groups = true;
        let driver = MemoryDriver::new(change(profile));
        let directory = tempfile::tempdir().unwrap();
        let serving = driver.serve(&endpoint(&directory)).unwrap();
        Self {
            server,
            driver,
            name,
            namespace,
            client,
            directory,
            _serving: serving,
        }
    }

    /// Starts a sidecar with these flags. It tries again soon after failures.
    pub fn sidecar(&self, flags: &[&str]) -> Sidecar {
        let mut words = vec![
            "controller".to_owned(),
            format!("--csi-address={}", endpoint(&self.directory)),
            format!("--kubeconfig={}", self.server.kubeconfig().display()),
            format!("--leader-election-namespace={}", self.namespace),
            "--health-port=0".to_owned(),
            "--retry-interval-start=100ms".to_owned(),
        ];
        words.extend(flags.iter().map(ToString::to_string));
        let args = Command::parse_from(words).args;
        let shutdown = CancellationToken::new();
        let process = Process {
            health: Health::default(),
            metrics: Metrics::new(),
            tasks: Tasks::new(shutdown.clone()),
            shutdown: shutdown.clone(),
        };
        Sidecar {
            shutdown,
            running: tokio::spawn(controller::run(args, process)),
        }
    }

    /// A volume that the driver has.
    pub async fn volume(&self, name: &str) -> String {
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            volume_capabilities: vec![VolumeCapability {
                access_mode: Some(AccessMode {
                    mode: Mode::SingleNodeWriter.into(),
                }),
                access_type: Some(AccessType::Mount(MountVolume::default())),
            }],
            ..CreateVolumeRequest::default()
        };
        let request = tonic::Request::new(request);
        let made = Controller::create_volume(&self.driver, request).await;
        made.unwrap().into_inner().volume.unwrap().volume_id
    }

    pub fn contents(&self) -> Api<VolumeSnapshotContent> {
        Api::all(self.client.clone())
    }

    pub fn group_contents(&self) -> Api<VolumeGroupSnapshotContent> {
        Api::all(self.client.clone())
    }

    /// A snapshot class of this driver, and of its name.
    pub async fn class(&self, parameters: Value) {
        let object = json!({
            "metadata": {"name": self.name},
            "driver": self.name,
            "deletionPolicy": "Delete",
            "parameters": parameters,
        });
        create::<VolumeSnapshotClass>(&Api::all(self.client.clone()), object).await;
    }

    pub async fn delete_class(&self) {
        let classes = Api::<VolumeSnapshotClass>::all(self.client.clone());
        let params = DeleteParams::default();
        classes.delete(&self.name, &params).await.unwrap();
    }

    pub async fn group_class(&self) {
        let object = json!({
            "metadata": {"name": self.name},
            "driver": self.name,
            "deletionPolicy": "Delete",
        });
        create::<VolumeGroupSnapshotClass>(&Api::all(self.client.clone()), object).await;
    }

    pub async fn secret(&self, name: &str) {
        let object = json!({
            "metadata": {"name": name, "namespace": self.namespace},
            "stringData": {"user": name},
        });
        create::<Secret>(
            &Api::namespaced(self.client.clone(), &self.namespace),
            object,
        )
        .await;
    }

    /// A content of this driver's class, for a VolumeSnapshot whose uid is `uid`.
    pub async fn content(&self, uid: &str, more: Value) -> String {
        let uid = format!("{uid}-{}", self.namespace);
        let name = format!("snapcontent-{uid}");
        let mut object = json!({
            "metadata": {"name": name, "finalizers": [names::SNAPSHOT.finalizer]},
            "spec": {
                "driver": self.name,
                "deletionPolicy": "Delete",
                "volumeSnapshotClassName": self.name,
                "volumeSnapshotRef": {"name": "monday", "namespace": self.namespace, "uid": uid},
                "source": {},
            },
        });
        merge(&mut object, more);
        create(&self.contents(), object).await;
        name
    }

    /// What the controller does when the user's object is deleted.
    pub async fn delete_content(&self, name: &str) {
        let mark =
            json!({"metadata": {"annotations": {names::SNAPSHOT.being_deleted: names::YES}}});
        let (contents, params) = (self.contents(), PatchParams::default());
        let marked = contents.patch(name, &params, &Patch::Merge(mark)).await;
        marked.unwrap();
        // One that somebody has deleted before goes at the mark alone.
        match contents.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => {
                deleted.unwrap();
            }
        }
    }

    /// Waits until a content is as wanted.
    pub async fn content_that(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&VolumeSnapshotContent) -> bool,
    ) -> VolumeSnapshotContent {
        let contents = self.contents();
        eventually(&format!("content {name} {what}"), async || {
            let content = contents.get(name).await.unwrap();
            is(&content).then_some(content)
        })
        .await
    }

    pub async fn ready(&self, name: &str) -> VolumeSnapshotContent {
        let ready = |content: &VolumeSnapshotContent| {
            let status = content.status.as_ref();
            status.and_then(|status| status.ready_to_use) == Some(true) && !is_marked(content)
        };
        self.content_that(name, "is ready", ready).await
    }

    /// Waits until a content has an error, and returns it.
    pub async fn error(&self, name: &str) -> String {
        let content = self
            .content_that(name, "has an error", |content| error_of(content).is_some())
            .await;
        error_of(&content).unwrap()
    }

    pub async fn gone(&self, name: &str) {
        let contents = self.contents();
        eventually(&format!("content {name} is gone"), async || {
            contents
                .get_opt(name)
                .await
                .unwrap()
                .is_none()
                .then_some(())
        })
        .await;
    }

    /// Waits for an event about an object, and returns its message.
    pub async fn event(&self, object: &str, reason: &str) -> String {
        let events = Api::<Event>::all(self.client.clone());
        eventually(&format!("event {reason} about {object}"), async || {
            let all = events
                .list(&kube::api::ListParams::default())
                .await
                .unwrap();
            let found = all.into_iter().find(|event| {
                let about = &event.involved_object;
                let elsewhere = about
                    .namespace
                    .as_ref()
                    .is_some_and(|at| *at != self.namespace);
                about.name.as_deref() == Some(object)
                    && !elsewhere
                    && event.reason.as_deref() == Some(reason)
            });
            found.and_then(|event| event.message)
        })
        .await
    }
}

pub fn is_marked(content: &VolumeSnapshotContent) -> bool {
    let annotations = content.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(names::SNAPSHOT.being_created))
}

pub fn error_of(content: &VolumeSnapshotContent) -> Option<String> {
    let error = content.status.as_ref()?.error.as_ref()?;
    error.message.clone()
}

impl Sidecar {
    /// Asks it to stop, and waits.
    pub async fn stop(self) {
        self.shutdown.cancel();
        let ended = tokio::time::timeout(SOON, self.running).await;
        ended.expect("the sidecar does not end").unwrap().unwrap();
    }

    /// Ends it like a `kill -9`: nothing is finished, nothing is handed over.
    pub async fn kill(self) {
        self.running.abort();
        let _ = self.running.await;
        self.shutdown.cancel();
    }
}

/// An API server that knows the kinds of snapshots.
fn with_kinds() -> &'static ApiServer {
    static READY: OnceLock<()> = OnceLock::new();
    let server = ApiServer::shared();
    READY.get_or_init(|| install(server, &CrdGroup::ALL));
    server
}

/// Gives a server the kinds of these groups.
pub fn install(server: &ApiServer, groups: &[CrdGroup]) {
    let crds: Vec<_> = groups.iter().flat_map(|group| group.crds()).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": crds}).to_string();
    server
        .kubectl_with_input(&["apply", "-f", "-"], &list)
        .unwrap();
    let established = ["wait", "--for=condition=Established", "crd", "--all"];
    server.kubectl(&established).unwrap();
}

fn endpoint(directory: &TempDir) -> Endpoint {
    let path = directory.path().join("csi.sock");
    Endpoint::try_from(path.as_path()).unwrap()
}
