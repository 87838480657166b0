//! A cluster with claims, and a snapshot controller for it.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use stowage_api::snapshot::{VolumeGroupSnapshot, VolumeSnapshot, VolumeSnapshotContent};
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, Running, create, eventually, merge, running};
use tokio::sync::Mutex;

/// All controllers here work for the whole API server: one at a time.
static ONE: Mutex<()> = Mutex::const_new(());

/// A rig with a sidecar and a snapshot controller.
pub struct Scene {
    pub rig: Rig,
    pub controller: Option<Running>,
    pub sidecar: Option<Running>,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Scene {
    /// Everything runs.
    pub async fn new() -> Self {
        let mut scene = Self::quiet().await;
        scene.start();
        scene
    }

    /// Nothing runs yet.
    pub async fn quiet() -> Self {
        Self::on(Rig::with_snapshots(|profile| profile).await).await
    }

    /// Nothing runs yet, on a server that may be another one.
    pub async fn on(rig: Rig) -> Self {
        let alone = ONE.lock().await;
        Self {
            rig,
            controller: None,
            sidecar: None,
            _alone: alone,
        }
    }

    pub fn start(&mut self) {
        self.controller = Some(controller(&self.rig, &[]));
        self.sidecar = Some(self.rig.sidecar(run, &[]));
    }

    /// Ends both in order.
    pub async fn end(self) {
        if let Some(controller) = self.controller {
            controller.stop().await.unwrap();
        }
        if let Some(sidecar) = self.sidecar {
            sidecar.stop().await.unwrap();
        }
    }

    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.rig.client.clone(), &self.rig.namespace)
    }

    pub fn snapshots(&self) -> Api<VolumeSnapshot> {
        Api::namespaced(self.rig.client.clone(), &self.rig.namespace)
    }

    pub fn groups(&self) -> Api<VolumeGroupSnapshot> {
        Api::namespaced(self.rig.client.clone(), &self.rig.namespace)
    }

    /// A claim that is bound to a volume of the driver, as Kubernetes' own controllers would leave it.
    pub async fn claim(&self, name: &str, labels: Value) -> String {
        let handle = self.rig.volume(name).await;
        self.claim_of(name, &self.rig.name, &handle, labels).await;
        handle
    }

    pub async fn claim_of(&self, name: &str, driver: &str, handle: &str, labels: Value) {
        let volume = format!("{}-{name}", self.rig.namespace);
        let claim = self
            .unbound(name, labels, json!({"volumeName": volume}))
            .await;
        let object = json!({
            "metadata": {"name": volume},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "claimRef": {
                    "namespace": self.rig.namespace, "name": name, "uid": claim.metadata.uid,
                },
                "csi": {"driver": driver, "volumeHandle": handle},
            },
        });
        create::<PersistentVolume>(&Api::all(self.rig.client.clone()), object).await;
        self.set_phase(name, "Bound").await;
    }

    pub async fn unbound(&self, name: &str, labels: Value, more: Value) -> PersistentVolumeClaim {
        let mut object = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "none",
            },
        });
        merge(&mut object["spec"], more);
        create(&self.claims(), object).await
    }

    pub async fn set_phase(&self, claim: &str, phase: &str) {
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        let params = PatchParams::default();
        let written = self.claims().patch_status(claim, &params, &status).await;
        written.unwrap();
    }

    /// A snapshot of a claim, with the rig's class unless `more` says otherwise.
    pub async fn snapshot(&self, name: &str, claim: &str, more: Value) -> VolumeSnapshot {
        let mut spec = json!({
            "source": {"persistentVolumeClaimName": claim},
            "volumeSnapshotClassName": self.rig.name,
        });
        merge(&mut spec, more);
        let object = json!({"metadata": {"name": name}, "spec": spec});
        create(&self.snapshots(), object).await
    }

    /// A claim `data`, and snapshots of it: `s0`, `s1` and so on.
    pub async fn many_snapshots(&self, how_many: usize) {
        self.rig.snapshot_class(json!({})).await;
        self.claim("data", Value::Null).await;
        for number in 0..how_many {
            self.snapshot(&format!("s{number}"), "data", json!({}))
                .await;
        }
    }

    pub async fn group_is_gone(&self, name: &str) {
        let groups = self.groups();
        eventually(&format!("group {name} is gone"), async || {
            let group = groups.get_opt(name).await.unwrap();
            group.is_none().then_some(())
        })
        .await;
    }

    pub async fn snapshot_that(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&VolumeSnapshot) -> bool,
    ) -> VolumeSnapshot {
        let snapshots = self.snapshots();
        eventually(&format!("snapshot {name} {what}"), async || {
            let snapshot = snapshots.get(name).await.unwrap();
            is(&snapshot).then_some(snapshot)
        })
        .await
    }

    pub async fn ready(&self, name: &str) -> VolumeSnapshot {
        self.snapshot_that(name, "is ready", |snapshot| {
            let status = snapshot.status.as_ref();
            status.and_then(|status| status.ready_to_use) == Some(true)
        })
        .await
    }

    pub async fn error(&self, name: &str) -> String {
        let error = |snapshot: &VolumeSnapshot| {
            let error = snapshot.status.clone()?.error?;
            error.message
        };
        let snapshot = self
            .snapshot_that(name, "has an error", |snapshot| error(snapshot).is_some())
            .await;
        error(&snapshot).unwrap()
    }

    pub async fn content_of(&self, snapshot: &VolumeSnapshot) -> VolumeSnapshotContent {
        let status = snapshot.status.clone().unwrap();
        let name = status.bound_volume_snapshot_content_name.unwrap();
        self.rig.contents().get(&name).await.unwrap()
    }

    pub async fn delete(&self, name: &str) {
        let deleted = self
            .snapshots()
            .delete(name, &DeleteParams::default())
            .await;
        deleted.unwrap();
    }

    pub async fn gone(&self, name: &str) {
        let snapshots = self.snapshots();
        eventually(&format!("snapshot {name} is gone"), async || {
            snapshots
                .get_opt(name)
                .await
                .unwrap()
                .is_none()
                .then_some(())
        })
        .await;
    }

    /// Waits until neither driver nor cluster has a snapshot of this rig.
    pub async fn nothing_left(&self) {
        let (snapshots, contents) = (self.snapshots(), self.rig.contents());
        eventually("nothing is left", async || {
            let requests = snapshots
                .list(&kube::api::ListParams::default())
                .await
                .unwrap();
            let contents = contents
                .list(&kube::api::ListParams::default())
                .await
                .unwrap();
            let mut ours = contents.iter();
            let none = !ours.any(|content| content.spec.driver == self.rig.name);
            let gone = none && requests.items.is_empty() && self.rig.driver.snapshots().is_empty();
            gone.then_some(())
        })
        .await;
    }
}

/// Starts a controller with these flags.
pub fn controller(rig: &Rig, flags: &[&str]) -> Running {
    let mut all = running::flags(rig.server.kubeconfig(), &rig.namespace);
    all.extend(flags.iter().map(ToString::to_string));
    Running::start(stowage_snapshot_controller::run, all)
}
