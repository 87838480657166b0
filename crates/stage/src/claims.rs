//! What a rig does with classes, claims and volumes: there must be a control plane that binds them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use miniz_oxide::inflate::decompress_to_vec;
use serde_json::{Value, json};
use stowage_csi::proto::csi::CreateVolumeRequest;

use crate::objects::{create, eventually, merge};
use crate::rig::Rig;

/// The text of a journal, which is compressed where it is long.
fn read_journal(text: &str) -> Value {
    let journal: Value = serde_json::from_str(text).unwrap();
    let Some(deflate) = journal["deflate"].as_str() else {
        return journal;
    };
    let bytes = BASE64.decode(deflate).unwrap();
    serde_json::from_slice(&decompress_to_vec(&bytes).unwrap()).unwrap()
}

impl Rig {
    /// A storage class of this driver; its name is also the driver's.
    pub async fn class(&self, more: Value) {
        let mut object = json!({
            "metadata": {"name": self.name},
            "provisioner": self.name,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        });
        merge(&mut object, more);
        create::<StorageClass>(&Api::all(self.client.clone()), object).await;
    }

    /// Deletes the storage class.
    pub async fn delete_class(&self) {
        let api = Api::<StorageClass>::all(self.client.clone());
        let params = DeleteParams::default();
        api.delete(&self.name, &params).await.unwrap();
    }

    /// A claim of 1 GiB of this rig's class.
    pub async fn claim(&self, name: &str, more: Value) -> PersistentVolumeClaim {
        let mut object = json!({
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        merge(&mut object, more);
        create(&self.claims(), object).await
    }

    /// The claims of this rig.
    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// All volumes of the cluster.
    pub fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// Waits until a claim is bound, and returns its volume.
    pub async fn bound(&self, name: &str) -> PersistentVolume {
        let claims = self.claims();
        let volume = eventually(&format!("claim {name} is bound"), async || {
            let claim = claims.get(name).await.unwrap();
            let phase = claim.status.and_then(|status| status.phase);
            (phase.as_deref() == Some("Bound")).then(|| claim.spec.unwrap().volume_name.unwrap())
        })
        .await;
        self.volumes().get(&volume).await.unwrap()
    }

    /// The claim as it is now.
    pub async fn get_claim(&self, name: &str) -> PersistentVolumeClaim {
        self.claims().get(name).await.unwrap()
    }

    /// Deletes a claim.
    pub async fn delete_claim(&self, name: &str) {
        let params = DeleteParams::default();
        self.claims().delete(name, &params).await.unwrap();
    }

    /// Waits until a claim is gone.
    pub async fn claim_is_gone(&self, name: &str) {
        eventually("the claim is gone", async || {
            let claim = self.claims().get_opt(name).await.unwrap();
            claim.is_none().then_some(())
        })
        .await;
    }

    /// Changes an annotation of a claim, or removes it.
    pub async fn annotate(&self, claim: &str, key: &str, value: Option<&str>) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let patch = Patch::Merge(&patch);
        let params = PatchParams::default();
        self.claims().patch(claim, &params, &patch).await.unwrap();
    }

    /// The objects of this driver's volumes.
    pub async fn own_volumes(&self) -> Vec<PersistentVolume> {
        let all = self.volumes().list(&ListParams::default()).await.unwrap();
        let ours = |volume: &PersistentVolume| {
            let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
            csi.is_some_and(|csi| csi.driver == self.name)
        };
        all.into_iter().filter(ours).collect()
    }

    /// Waits until neither driver nor cluster has a volume.
    pub async fn nothing_left(&self) {
        eventually("nothing is left", async || {
            let gone = self.driver.volumes().is_empty() && self.own_volumes().await.is_empty();
            gone.then_some(())
        })
        .await;
    }

    /// What the driver was asked to make, oldest first.
    pub fn creations(&self) -> Vec<CreateVolumeRequest> {
        self.driver.requests()
    }

    /// The claims with an entry in the sidecar's journal.
    pub async fn intents(&self) -> Vec<String> {
        let api = Api::<Lease>::namespaced(self.client.clone(), &self.namespace);
        let name = format!("stowage-intents-{}", self.name);
        let Some(lease) = api.get_opt(&name).await.unwrap() else {
            return Vec::new();
        };
        let text = &lease.metadata.annotations.unwrap_or_default()["stowage.dev/intents"];
        let journal = read_journal(text);
        let entries = journal["entries"].as_array().cloned().unwrap_or_default();
        let claim = |entry: &Value| entry["c"].as_str().unwrap().to_owned();
        entries.iter().map(claim).collect()
    }

    /// Waits until the journal is empty.
    pub async fn journal_is_empty(&self) {
        eventually("the journal is empty", async || {
            self.intents().await.is_empty().then_some(())
        })
        .await;
    }

    /// Adds a node of this rig; its name is returned.
    pub async fn node(&self, name: &str, labels: &[(&str, &str)]) -> String {
        let full = format!("{}-{name}", self.namespace);
        let (plane, driver, node) = (self.plane(), self.name.clone(), full.clone());
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let labels: Vec<(String, String)> = labels.iter().map(owned).collect();
        let add = move || {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (&**k, &**v)).collect();
            plane.add_node(&node, &driver, &labels).unwrap();
        };
        tokio::task::spawn_blocking(add).await.unwrap();
        full
    }
}
