//! What the tests of growing volumes have in common.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use stowage_csi::proto::csi::ControllerExpandVolumeRequest;
use stowage_kubernetes::discovery::Server;
use stowage_memory_driver::Profile;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, Running, eventually};

use crate::resize::gate::Gate;

pub const GIB: i64 = 1 << 30;
pub const PRE_RESIZE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
pub const NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";
pub const CLAIM: &str = "PATCH persistentvolumeclaims/status";
pub const VOLUME: &str = "PATCH persistentvolumes";

/// A bound claim `data` of 1 GiB, and a sidecar whose writes are known.
pub struct Scene {
    pub rig: Rig,
    pub gate: Gate,
    pub sidecar: Option<Running>,
    pub volume: String,
}

impl Scene {
    pub async fn new(change: impl FnOnce(&mut Profile)) -> Self {
        Self::with(change, &[]).await
    }

    pub async fn with(change: impl FnOnce(&mut Profile), flags: &[&str]) -> Self {
        let rig = Rig::plain_with(change).await;
        rig.class(json!({"allowVolumeExpansion": true})).await;
        Self::of(rig, flags).await
    }

    /// The same with a rig that has its class.
    pub async fn of(rig: Rig, flags: &[&str]) -> Self {
        let kubeconfig = rig.plane().kubeconfig();
        let gate = Gate::open(kubeconfig, rig.directory.path()).await;
        let sidecar = rig.sidecar_as(run, gate.kubeconfig(), flags);
        rig.claim("data", json!({})).await;
        let volume = rig.bound("data").await.name_any();
        gate.writes();
        Self {
            rig,
            gate,
            sidecar: Some(sidecar),
            volume,
        }
    }

    /// Ends the sidecar like a `kill -9`, and starts another one that nothing holds up.
    pub async fn restart(&mut self) {
        self.sidecar.take().unwrap().kill().await;
        let kubeconfig = self.rig.plane().kubeconfig();
        self.gate = Gate::open(kubeconfig, self.rig.directory.path()).await;
        self.sidecar = Some(self.rig.sidecar_as(run, self.gate.kubeconfig(), &[]));
    }

    /// Asks for so much.
    pub async fn request(&self, size: &str) {
        self.try_request(size).await.unwrap();
    }

    pub async fn try_request(&self, size: &str) -> kube::Result<PersistentVolumeClaim> {
        let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let claims = self.rig.claims();
        let params = PatchParams::default();
        claims.patch("data", &params, &Patch::Merge(&patch)).await
    }

    /// Does what a kubelet does when the filesystem has grown.
    pub async fn node_follows(&self, size: &str) {
        let patch = json!({"status": {
            "capacity": {"storage": size},
            "conditions": null,
            "allocatedResourceStatuses": null,
        }});
        let claims = self.rig.claims();
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        claims.patch_status("data", &params, &patch).await.unwrap();
    }

    /// Whether claims have fields that say whose turn it is: then the node's step comes before more.
    pub async fn has_fields(&self) -> bool {
        let server = Server::discover(&self.rig.client).await.unwrap();
        // Recovery of failed expansions is on by default since then; before, the server drops the fields.
        server.is_at_least(32)
    }

    pub async fn claim(&self) -> PersistentVolumeClaim {
        self.rig.get_claim("data").await
    }

    pub async fn pv(&self) -> PersistentVolume {
        self.rig.volumes().get(&self.volume).await.unwrap()
    }

    pub async fn pv_size(&self) -> String {
        self.pv().await.spec.unwrap().capacity.unwrap()["storage"]
            .0
            .clone()
    }

    /// The types of the claim's conditions.
    pub async fn conditions(&self) -> Vec<String> {
        conditions(&self.claim().await)
    }

    /// Waits until the claim's conditions are of these types, given in alphabetical order.
    pub async fn says(&self, expected: &[&str]) {
        eventually(&format!("the claim says {expected:?}"), async || {
            (self.conditions().await == expected).then_some(())
        })
        .await;
    }

    /// Waits until the claim has so much.
    pub async fn has(&self, size: &str) {
        eventually(&format!("the claim has {size}"), async || {
            (capacity(&self.claim().await) == size).then_some(())
        })
        .await;
    }

    /// Waits until the volume's object does not tell any more what the claim had.
    pub async fn tidied(&self) {
        eventually("the annotation is gone", async || {
            let volume = self.pv().await;
            (!volume.annotations().contains_key(PRE_RESIZE)).then_some(())
        })
        .await;
    }

    /// What the driver was asked for.
    pub fn sizes(&self) -> Vec<i64> {
        let requests = self.rig.driver.requests::<ControllerExpandVolumeRequest>();
        let size = |request: &ControllerExpandVolumeRequest| {
            request.capacity_range.unwrap().required_bytes / GIB
        };
        requests.iter().map(size).collect()
    }
}

pub fn capacity(claim: &PersistentVolumeClaim) -> String {
    let status = claim.status.clone().unwrap_or_default();
    let capacity = status.capacity.unwrap_or_default();
    capacity
        .get("storage")
        .map(|size| size.0.clone())
        .unwrap_or_default()
}

pub fn conditions(claim: &PersistentVolumeClaim) -> Vec<String> {
    let status = claim.status.clone().unwrap_or_default();
    let all = status.conditions.unwrap_or_default();
    let mut types: Vec<_> = all.into_iter().map(|condition| condition.type_).collect();
    types.sort();
    types
}
