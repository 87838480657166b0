//! What the tests of free capacity have in common.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use stowage_kubernetes::discovery::Server;
use stowage_memory_driver::Room;
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, Running, create, eventually};

pub const GIB: i64 = 1 << 30;
pub const ZONE: &str = "example.com/zone";

/// A driver with topology, whose sidecar publishes free capacity.
pub struct Scene {
    pub rig: Rig,
    pub sidecar: Option<Running>,
    kind: ApiResource,
}

/// The best version of CSIStorageCapacity that the server has.
async fn capacities(client: &Client) -> ApiResource {
    let best_first = [
        "storage.k8s.io/v1",
        "storage.k8s.io/v1beta1",
        "storage.k8s.io/v1alpha1",
    ];
    let plural = "csistoragecapacities";
    let server = Server::discover(client).await.unwrap();
    let found = server
        .version_with(client, plural, &best_first)
        .await
        .unwrap();
    let version = found.unwrap().split_once('/').unwrap().1;
    let kind = GroupVersionKind::gvk("storage.k8s.io", version, "CSIStorageCapacity");
    ApiResource::from_gvk_with_plural(&kind, plural)
}

impl Scene {
    /// `flags` come after those that every such sidecar has.
    pub async fn new(topology: bool, flags: &[&str]) -> Self {
        let rig = Rig::new(|mut profile| {
            profile.topology = topology;
            profile
        })
        .await;
        let kind = capacities(&rig.client).await;
        let mut scene = Self {
            rig,
            sidecar: None,
            kind,
        };
        scene.start(flags);
        scene
    }

    pub fn start(&mut self, flags: &[&str]) {
        let namespace = format!("--capacity-namespace={}", self.rig.namespace);
        let mut all = vec!["--enable-capacity", &namespace];
        let owned = flags.iter().any(|flag| flag.starts_with("--pod-name"));
        if !owned {
            all.push("--capacity-ownerref-level=-1");
        }
        all.extend(flags);
        self.sidecar = Some(self.rig.sidecar(run, &all));
    }

    /// A class that waits for pods; its name begins with the driver's.
    pub async fn class(&self, name: &str, mode: &str) -> String {
        let name = format!("{}-{name}", self.rig.name);
        let object = json!({
            "metadata": {"name": name},
            "provisioner": self.rig.name,
            "volumeBindingMode": mode,
            "parameters": {"csi.storage.k8s.io/fstype": "xfs", "tier": "gold"},
        });
        create::<StorageClass>(&Api::all(self.rig.client.clone()), object).await;
        name
    }

    pub async fn delete_class(&self, name: &str) {
        let api = Api::<StorageClass>::all(self.rig.client.clone());
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn delete_node(&self, name: &str) {
        let api = Api::<Node>::all(self.rig.client.clone());
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub fn room(&self, zone: &str, gib: i64) {
        let room = Room {
            available: gib * GIB,
            ..Room::default()
        };
        let place = (!zone.is_empty()).then_some((ZONE, zone));
        self.rig.driver.set_room(place, room);
    }

    pub fn objects(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.rig.client.clone(), &self.rig.namespace, &self.kind)
    }

    pub async fn all(&self) -> Vec<DynamicObject> {
        let list = self.objects().list(&ListParams::default()).await.unwrap();
        list.items
    }

    /// Class, zone and capacity of all objects, in order; the class without the driver's name.
    pub async fn published(&self) -> Vec<String> {
        let line = |object: &DynamicObject| {
            let data = &object.data;
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let class = text(&data["storageClassName"]);
            let class = class.rsplit('-').next().unwrap().to_owned();
            let labels = &data["nodeTopology"]["matchLabels"];
            let zone = text(&labels[ZONE]);
            format!("{class} {zone} {}", text(&data["capacity"]))
        };
        let mut lines: Vec<_> = self.all().await.iter().map(line).collect();
        lines.sort();
        lines
    }

    /// Waits until this is published, and nothing else.
    pub async fn publishes(&self, expected: &[&str]) {
        eventually(&format!("{expected:?} is published"), async || {
            (self.published().await == expected).then_some(())
        })
        .await;
    }
}
