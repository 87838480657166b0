//! Objects in the API server, and what becomes of them.

use k8s_openapi::api::core::v1::{PersistentVolume, Secret};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::metrics::ClientMetrics;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{CapacityRange, CreateVolumeRequest};
use stowage_stage::SOON;

use super::{Scene, eventually};
use crate::access;
use crate::cluster::attachment::NODE_ID;

impl Scene {
    pub(super) fn named(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
    {
        Api::all(self.admin.clone())
    }

    pub(in crate::attach::tests) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        let created = self
            .api::<K>()
            .create(&PostParams::default(), &object)
            .await;
        created.unwrap()
    }

    pub(in crate::attach::tests) async fn edit<K>(&self, name: &str, change: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api = self.api::<K>();
        let patch = Patch::Merge(change);
        let params = PatchParams::default();
        let edited = api.patch(&self.named(name), &params, &patch).await;
        edited.unwrap()
    }

    pub(in crate::attach::tests) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let (api, params) = (self.api::<K>(), DeleteParams::default());
        api.delete(&self.named(name), &params).await.unwrap();
    }

    /// A CSINode on which the driver calls the node `<node>-id`.
    pub(in crate::attach::tests) async fn add_node(&self, node: &str) {
        self.create::<CSINode>(json!({
            "metadata": { "name": self.named(node) },
            "spec": { "drivers": [
                { "name": self.name, "nodeID": format!("{node}-id"), "topologyKeys": [] },
            ]},
        }))
        .await;
    }

    pub(in crate::attach::tests) async fn remove_node(&self, node: &str) {
        self.delete::<CSINode>(node).await;
    }

    /// Calls of others than the role.
    pub(in crate::attach::tests) fn controller(&self) -> ControllerClient<Connection> {
        let options = ClientOptions {
            timeout: SOON,
            patience: SOON,
            metrics: ClientMetrics::default(),
        };
        ControllerClient::new(Connection::new(&self.endpoint, options))
    }

    /// A volume at the driver; its id.
    async fn make_volume(&self, name: &str) -> String {
        let mode = Mode::MultiNodeMultiWriter.into();
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(CapacityRange {
                required_bytes: 1 << 30,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![access::capability(mode, false, "", &[])],
            ..CreateVolumeRequest::default()
        };
        let created = self.controller().create_volume(request).await;
        created.unwrap().into_inner().volume.unwrap().volume_id
    }

    /// A volume at the driver and its PersistentVolume.
    pub(in crate::attach::tests) async fn add_volume(&self, name: &str) {
        self.add_volume_with(name, json!({})).await;
    }

    pub(in crate::attach::tests) async fn add_volume_with(&self, name: &str, csi: Value) {
        let handle = self.make_volume(name).await;
        let mut object = json!({
            "metadata": { "name": self.named(name) },
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": { "storage": "1Gi" },
                "csi": csi,
            },
        });
        object["spec"]["csi"]["driver"] = json!(self.name);
        object["spec"]["csi"]["volumeHandle"] = json!(handle);
        self.create::<PersistentVolume>(object).await;
    }

    pub(in crate::attach::tests) async fn add_secret(&self, name: &str, data: Value) {
        let secrets = Api::<Secret>::namespaced(self.admin.clone(), "default");
        let object = json!({ "metadata": self.secret(name), "stringData": data });
        let object = serde_json::from_value(object).unwrap();
        secrets
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub(in crate::attach::tests) fn secret(&self, name: &str) -> Value {
        json!({ "name": self.named(name).replace('.', "-"), "namespace": "default" })
    }

    /// As the attach/detach controller asks for it.
    pub(in crate::attach::tests) async fn ask(&self, name: &str, volume: &str, node: &str) {
        self.ask_with(name, volume, node, json!({})).await;
    }

    pub(in crate::attach::tests) async fn ask_with(
        &self,
        name: &str,
        volume: &str,
        node: &str,
        metadata: Value,
    ) {
        let mut object = json!({
            "metadata": metadata,
            "spec": {
                "attacher": self.name,
                "nodeName": self.named(node),
                "source": { "persistentVolumeName": self.named(volume) },
            },
        });
        object["metadata"]["name"] = json!(self.named(name));
        self.create::<VolumeAttachment>(object).await;
    }

    pub(in crate::attach::tests) async fn set_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let api = self.api::<VolumeAttachment>();
        let params = PatchParams::default();
        let set = api.patch_status(&self.named(name), &params, &patch).await;
        set.unwrap();
    }

    pub(in crate::attach::tests) async fn set_phase(&self, volume: &str, phase: &str) {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        let (api, params) = (self.api::<PersistentVolume>(), PatchParams::default());
        let set = api.patch_status(&self.named(volume), &params, &patch).await;
        set.unwrap();
    }

    pub(in crate::attach::tests) async fn attachment(
        &self,
        name: &str,
    ) -> Option<VolumeAttachment> {
        self.api().get_opt(&self.named(name)).await.unwrap()
    }

    pub(in crate::attach::tests) async fn volume(&self, name: &str) -> Option<PersistentVolume> {
        self.api().get_opt(&self.named(name)).await.unwrap()
    }

    pub(in crate::attach::tests) async fn attached(&self, name: &str) -> VolumeAttachment {
        self.becomes(name, |found| {
            found.status.as_ref().is_some_and(|status| status.attached)
        })
        .await
    }

    /// Waits until the attachment is as it should be.
    pub(in crate::attach::tests) async fn becomes(
        &self,
        name: &str,
        right: impl Fn(&VolumeAttachment) -> bool,
    ) -> VolumeAttachment {
        let mut last = None;
        for _ in 0..400 {
            last = self.attachment(name).await;
            if let Some(found) = last.take_if(|found| right(found)) {
                return found;
            }
            tokio::time::sleep(SOON / 400).await;
        }
        panic!("{name} is {last:#?}");
    }

    pub(in crate::attach::tests) async fn goes(&self, name: &str) {
        eventually(name, async || self.attachment(name).await.is_none()).await;
    }

    /// What is published, as `volume@node`.
    pub(in crate::attach::tests) fn published(&self) -> Vec<String> {
        let volumes = self.driver.volumes();
        let name = |id: &str| {
            let found = volumes.iter().find(|volume| volume.id == id);
            found.map_or_else(|| id.to_owned(), |volume| volume.name.clone())
        };
        let all = self.driver.publications().into_iter();
        all.map(|one| format!("{}@{}", name(&one.volume_id), one.node_id))
            .collect()
    }
}

pub(in crate::attach::tests) fn node_id(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.annotations().get(NODE_ID).map(String::as_str)
}

pub(in crate::attach::tests) fn attach_error(attachment: &VolumeAttachment) -> Option<&str> {
    let error = attachment.status.as_ref()?.attach_error.as_ref()?;
    error.message.as_deref()
}

pub(in crate::attach::tests) fn detach_error(attachment: &VolumeAttachment) -> Option<&str> {
    let error = attachment.status.as_ref()?.detach_error.as_ref()?;
    error.message.as_deref()
}
