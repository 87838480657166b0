//! What a rig does with snapshots: their kinds, their classes, and contents as the cluster-wide controller makes them.

use std::sync::OnceLock;

use devcluster::testing::ApiServer;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use stowage_api::CrdGroup;
use stowage_api::snapshot::{
    VolumeGroupSnapshotClass, VolumeGroupSnapshotContent, VolumeSnapshotClass,
    VolumeSnapshotContent, names,
};
use stowage_csi::proto::csi::controller_server::Controller;
use stowage_csi::proto::csi::group_controller_server::GroupController;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use stowage_csi::proto::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeRequest, VolumeCapability,
};
use stowage_testing::{Lent, Turn, shared_for};

use crate::objects::{create, eventually, merge};
use crate::rig::Rig;

impl Rig {
    /// Gives the rig's server the kinds of snapshots.
    pub async fn install_snapshot_kinds(&self) {
        let server = self.server;
        let install = move || install_kinds(server, &CrdGroup::ALL);
        tokio::task::spawn_blocking(install).await.unwrap();
        let contents = self.contents();
        eventually("the kinds of snapshots are served", async || {
            contents.list(&ListParams::default()).await.ok()
        })
        .await;
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

    /// A group snapshot of these volumes that the driver has. Returns its id, and those of its members.
    pub async fn group_snapshot(&self, volumes: Vec<String>) -> (String, Vec<String>) {
        let request = CreateVolumeGroupSnapshotRequest {
            name: "long-ago".to_owned(),
            source_volume_ids: volumes,
            ..CreateVolumeGroupSnapshotRequest::default()
        };
        let request = tonic::Request::new(request);
        let made = GroupController::create_volume_group_snapshot(&self.driver, request).await;
        let group = made.unwrap().into_inner().group_snapshot.unwrap();
        let members = group.snapshots.into_iter().map(|one| one.snapshot_id);
        (group.group_snapshot_id, members.collect())
    }

    /// All contents of the cluster.
    pub fn contents(&self) -> Api<VolumeSnapshotContent> {
        Api::all(self.client.clone())
    }

    /// The same of groups.
    pub fn group_contents(&self) -> Api<VolumeGroupSnapshotContent> {
        Api::all(self.client.clone())
    }

    /// A snapshot class of this driver, and of its name.
    pub async fn snapshot_class(&self, parameters: Value) {
        let object = json!({
            "metadata": {"name": self.name},
            "driver": self.name,
            "deletionPolicy": "Delete",
            "parameters": parameters,
        });
        create::<VolumeSnapshotClass>(&Api::all(self.client.clone()), object).await;
    }

    /// Deletes the snapshot class.
    pub async fn delete_snapshot_class(&self) {
        let classes = Api::<VolumeSnapshotClass>::all(self.client.clone());
        let params = DeleteParams::default();
        classes.delete(&self.name, &params).await.unwrap();
    }

    /// A class of group snapshots of this driver, and of its name.
    pub async fn group_snapshot_class(&self) {
        let object = json!({
            "metadata": {"name": self.name},
            "driver": self.name,
            "deletionPolicy": "Delete",
        });
        create::<VolumeGroupSnapshotClass>(&Api::all(self.client.clone()), object).await;
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

    /// Waits until a content is ready to use.
    pub async fn content_is_ready(&self, name: &str) -> VolumeSnapshotContent {
        let ready = |content: &VolumeSnapshotContent| {
            let status = content.status.as_ref();
            status.and_then(|status| status.ready_to_use) == Some(true) && !is_marked(content)
        };
        self.content_that(name, "is ready", ready).await
    }

    /// Waits until a content has an error, and returns it.
    pub async fn content_error(&self, name: &str) -> String {
        let content = self
            .content_that(name, "has an error", |content| error_of(content).is_some())
            .await;
        error_of(&content).unwrap()
    }

    /// Waits until a content is gone.
    pub async fn content_is_gone(&self, name: &str) {
        let contents = self.contents();
        eventually(&format!("content {name} is gone"), async || {
            let content = contents.get_opt(name).await.unwrap();
            content.is_none().then_some(())
        })
        .await;
    }
}

/// Whether a content says that a call to the driver may be under way.
pub fn is_marked(content: &VolumeSnapshotContent) -> bool {
    let annotations = content.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(names::SNAPSHOT.being_created))
}

/// The error in the status of a content.
pub fn error_of(content: &VolumeSnapshotContent) -> Option<String> {
    let error = content.status.as_ref()?.error.as_ref()?;
    error.message.clone()
}

/// An API server that has the kinds of snapshots.
pub(crate) fn with_kinds() -> &'static ApiServer {
    static SERVER: OnceLock<Lent> = OnceLock::new();
    SERVER.get_or_init(|| shared_for("snapshots", |server| install_kinds(server, &CrdGroup::ALL)))
}

/// Gives a server the kinds of these groups. Called twice: they are there.
pub fn install_kinds(server: &ApiServer, groups: &[CrdGroup]) {
    let _turn = Turn::of(server, "kinds");
    let crds: Vec<_> = groups.iter().flat_map(|group| group.crds()).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": crds}).to_string();
    server
        .kubectl_with_input(&["apply", "-f", "-"], &list)
        .unwrap();
    server.wait_for_definitions().unwrap();
}
