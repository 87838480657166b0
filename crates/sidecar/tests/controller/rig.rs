//! A driver in memory, a sidecar beside it, and the cluster they work for.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use devcluster::testing::{ControlPlane, Rule};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Event, Namespace, PersistentVolume, PersistentVolumeClaim, Secret,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::proto::csi::CreateVolumeRequest;
use stowage_memory_driver::{MemoryDriver, Profile, Serving};
use stowage_sidecar::journal::journal_name;
use tempfile::TempDir;

use crate::sidecar::{Place, Sidecar};

#[path = "../shared/objects.rs"]
mod objects;

pub use self::objects::{SOON, create, eventually, merge};

/// A driver of its own name in a namespace of its own.
pub struct Rig {
    pub plane: &'static ControlPlane,
    pub driver: MemoryDriver,
    pub name: String,
    pub namespace: String,
    pub client: Client,
    pub directory: TempDir,
    serving: Option<Serving>,
}

impl Rig {
    /// A rig whose driver can do everything but tell places apart.
    pub async fn plain() -> Self {
        Self::new(|mut profile| {
            profile.topology = false;
            profile
        })
        .await
    }

    /// A rig whose driver can do everything but what `change` takes away.
    pub async fn new(change: impl FnOnce(Profile) -> Profile) -> Self {
        let plane = tokio::task::spawn_blocking(ControlPlane::shared);
        Self::on(plane.await.unwrap(), change).await
    }

    /// A rig on a control plane of its own.
    pub async fn on(plane: &'static ControlPlane, change: impl FnOnce(Profile) -> Profile) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rig{number}-{}.stowage.test", std::process::id());
        let namespace = format!("rig{number}-{}", std::process::id());
        let client = objects::connect(plane.kubeconfig()).await;
        let object = json!({"metadata": {"name": namespace}});
        create::<Namespace>(&Api::all(client.clone()), object).await;
        let mut rig = Self {
            plane,
            driver: MemoryDriver::new(change(Profile::named(&name))),
            name,
            namespace,
            client,
            directory: tempfile::tempdir().unwrap(),
            serving: None,
        };
        rig.serve();
        rig
    }

    pub fn endpoint(&self) -> Endpoint {
        let path = self.directory.path().join("csi.sock");
        Endpoint::try_from(path.as_path()).unwrap()
    }

    /// Starts the driver, again if need be.
    pub fn serve(&mut self) {
        self.serving = Some(self.driver.serve(&self.endpoint()).unwrap());
    }

    /// Takes the driver away.
    pub async fn stop_driver(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop().await;
        }
    }

    /// Starts a sidecar with these flags. It is impatient: what fails is tried again soon.
    pub fn sidecar(&self, flags: &[&str]) -> Sidecar {
        self.sidecar_as(self.plane.kubeconfig(), flags)
    }

    /// Starts a sidecar that is somebody else than the administrator.
    pub fn sidecar_as(&self, kubeconfig: &Path, flags: &[&str]) -> Sidecar {
        let place = Place {
            endpoint: &self.endpoint(),
            kubeconfig,
            namespace: &self.namespace,
        };
        Sidecar::controller(place, flags)
    }

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

    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

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

    /// Waits until a claim is gone.
    pub async fn claim_is_gone(&self, name: &str) {
        eventually("the claim is gone", async || {
            let claim = self.claims().get_opt(name).await.unwrap();
            claim.is_none().then_some(())
        })
        .await;
    }

    pub async fn delete_class(&self) {
        let api = Api::<StorageClass>::all(self.client.clone());
        let params = DeleteParams::default();
        api.delete(&self.name, &params).await.unwrap();
    }

    pub async fn delete_claim(&self, name: &str) {
        let params = DeleteParams::default();
        self.claims().delete(name, &params).await.unwrap();
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

    /// Waits for an event about an object that says something, and returns its message.
    pub async fn event(&self, object: &str, reason: &str, says: &str) -> String {
        // Events about objects without a namespace are in `default`.
        let events = |namespace: &str| Api::<Event>::namespaced(self.client.clone(), namespace);
        let places = [events(&self.namespace), events("default")];
        let which = format!("involvedObject.name={object},reason={reason}");
        let which = ListParams::default().fields(&which);
        let what = format!("event {reason} about {object} that says `{says}`");
        eventually(&what, async || {
            let mut all = Vec::new();
            for events in &places {
                all.extend(events.list(&which).await.unwrap());
            }
            let mut messages = all.into_iter().filter_map(|event| event.message);
            messages.find(|message| message.contains(says))
        })
        .await
    }

    /// Waits until an RPC was called so often.
    pub async fn called(&self, rpc: &str, times: u64) {
        let what = format!("{rpc} is called {times} times");
        eventually(&what, async || {
            (self.driver.calls(rpc) >= times).then_some(())
        })
        .await;
    }

    /// What the driver was asked to make, oldest first.
    pub fn creations(&self) -> Vec<CreateVolumeRequest> {
        self.driver.requests()
    }

    /// The claims with an entry in the journal.
    pub async fn intents(&self) -> Vec<String> {
        let api = Api::<Lease>::namespaced(self.client.clone(), &self.namespace);
        let name = journal_name(&self.name, None);
        let Some(lease) = api.get_opt(&name).await.unwrap() else {
            return Vec::new();
        };
        let text = &lease.metadata.annotations.unwrap_or_default()["stowage.dev/intents"];
        let journal: Value = serde_json::from_str(text).unwrap();
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

    /// Changes an annotation of a claim, or removes it.
    pub async fn annotate(&self, claim: &str, key: &str, value: Option<&str>) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let patch = Patch::Merge(&patch);
        let params = PatchParams::default();
        self.claims().patch(claim, &params, &patch).await.unwrap();
    }

    /// Adds a node of this rig; its name is returned.
    pub async fn node(&self, name: &str, labels: &[(&str, &str)]) -> String {
        let full = format!("{}-{name}", self.namespace);
        let (plane, driver, node) = (self.plane, self.name.clone(), full.clone());
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let labels: Vec<(String, String)> = labels.iter().map(owned).collect();
        let add = move || {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (&**k, &**v)).collect();
            plane.add_node(&node, &driver, &labels).unwrap();
        };
        tokio::task::spawn_blocking(add).await.unwrap();
        full
    }

    /// A user with these rules only.
    pub async fn user(&self, rules: Vec<Rule<'static>>) -> PathBuf {
        let (plane, name) = (self.plane, self.namespace.clone());
        let make = move || plane.user(&name, &rules).unwrap();
        tokio::task::spawn_blocking(make).await.unwrap()
    }

    /// A secret in this rig's namespace.
    pub async fn secret(&self, name: &str, key: &str, value: &str) {
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        let object = json!({"metadata": {"name": name}, "stringData": {key: value}});
        create(&api, object).await;
    }

    pub async fn delete_secret(&self, name: &str) {
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
}
