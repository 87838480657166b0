//! Nodes with driver pods and pods that use the driver. There are no kubelets and no DaemonSet controller here: the fleet
//! does what those would do.

use std::net::SocketAddr;

use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use stowage_operator::driver::Kind;

use crate::reconcile::faults::Faults;
use crate::reconcile::rig::{Rig, client_of, resource, server};
use crate::told::{Sidecar, flag};

const REVISION: &str = "controller-revision-hash";

pub(crate) struct Fleet {
    client: Client,
    namespace: String,
    driver: String,
    /// The DaemonSet of the driver pods.
    set: String,
    /// Names of the nodes, which the whole cluster shares.
    pub(crate) nodes: Vec<String>,
    revision: u64,
    /// Whether new driver pods never get ready.
    pub(crate) breaks: bool,
    /// Where the sidecars of driver pods tell what is mounted, if they do.
    tells_at: Option<SocketAddr>,
}

/// The example with `Draining`, changed.
async fn deploy_draining(rig: &mut Rig, change: impl FnOnce(&mut Value)) {
    rig.deploy(|instance| {
        let spec = &mut instance["spec"];
        spec["nodeUpdateStrategy"] = json!("Draining");
        spec["nodeDrain"] = json!({"settleSeconds": 0});
        change(spec);
    })
    .await;
}

impl Fleet {
    /// Deploys the example with `Draining`, and has its pods run on some nodes.
    pub(crate) async fn deploy(
        rig: &mut Rig,
        nodes: usize,
        change: impl FnOnce(&mut Value),
    ) -> Self {
        deploy_draining(rig, change).await;
        let calm = client_of(server(), &Faults::default()).await;
        let fleet = Self::join(calm, &rig.namespace, nodes).await;
        rig.make_ready(nodes).await;
        rig.sync().await;
        fleet
    }

    /// The same on one node, whose sidecar tells what is mounted.
    pub(crate) async fn deploy_telling(
        rig: &mut Rig,
        change: impl FnOnce(&mut Value),
    ) -> (Self, Sidecar) {
        deploy_draining(rig, change).await;
        let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
        let hash = flag(&set["spec"]["template"]["spec"], "--mounts-key-sha256=").unwrap();
        let sidecar = Sidecar::start(&format!("{}.example", rig.namespace), &hash, 0).await;
        let calm = client_of(server(), &Faults::default()).await;
        let mut fleet = Self::of_set(calm, &rig.namespace, "hostpath-node".to_owned());
        fleet.tells_at = Some(sidecar.address);
        fleet.grow(1).await;
        rig.make_ready(1).await;
        rig.sync().await;
        (fleet, sidecar)
    }

    /// The same on nodes that have a DaemonSet of their own, beside that of all others, who have no node.
    pub(crate) async fn deploy_variant(
        rig: &mut Rig,
        variant: &str,
        nodes: usize,
        change: impl FnOnce(&mut Value),
    ) -> Self {
        deploy_draining(rig, change).await;
        let calm = client_of(server(), &Faults::default()).await;
        let set = format!("hostpath-node-{variant}");
        rig.make_ready(0).await;
        let fleet = Self::join_set(calm, &rig.namespace, set, nodes).await;
        rig.sync().await;
        fleet
    }

    /// Has the pods of the example in a namespace run on some nodes, whose kubelets know the driver.
    pub(crate) async fn join(client: Client, namespace: &str, nodes: usize) -> Self {
        Self::join_set(client, namespace, "hostpath-node".to_owned(), nodes).await
    }

    async fn join_set(client: Client, namespace: &str, set: String, nodes: usize) -> Self {
        let mut fleet = Self::of_set(client, namespace, set);
        fleet.grow(nodes).await;
        fleet
    }

    /// A DaemonSet that has no node yet.
    fn of_set(client: Client, namespace: &str, set: String) -> Self {
        Self {
            set,
            client,
            namespace: namespace.to_owned(),
            driver: format!("{namespace}.example"),
            nodes: Vec::new(),
            revision: 0,
            breaks: false,
            tells_at: None,
        }
    }

    /// Some nodes join, and get driver pods.
    async fn grow(&mut self, nodes: usize) {
        let csi_nodes = resource("storage.k8s.io", "v1", "CSINode", "csinodes");
        let csi_nodes = Api::<DynamicObject>::all_with(self.client.clone(), &csi_nodes);
        for number in 0..nodes {
            let name = format!("{}-node-{number}", self.namespace);
            let node = json!({"metadata": {"name": name}});
            self.create(&self.node_api(), node).await;
            self.report(&name, true).await;
            let drivers = json!([{"name": self.driver, "nodeID": name}]);
            let known = json!({"metadata": {"name": name}, "spec": {"drivers": drivers}});
            self.create(&csi_nodes, known).await;
            self.nodes.push(name);
        }
        self.new_revision().await;
        self.play().await;
    }

    fn api(&self, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let resource = resource(group, version, kind, plural);
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    pub(crate) fn pod_api(&self) -> Api<DynamicObject> {
        self.api("", "v1", "Pod", "pods")
    }

    pub(crate) fn node_api(&self) -> Api<DynamicObject> {
        let nodes: ApiResource = resource("", "v1", "Node", "nodes");
        Api::all_with(self.client.clone(), &nodes)
    }

    async fn create(&self, api: &Api<DynamicObject>, object: Value) {
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn set_status(&self, api: &Api<DynamicObject>, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let nothing = PatchParams::default();
        api.patch_status(name, &nothing, &patch).await.unwrap();
    }

    /// What a kubelet tells about the driver pod of the current template.
    pub(crate) async fn ready(&self, node: &str, is_ready: bool) {
        let ready = if is_ready { "True" } else { "False" };
        let conditions = json!({"conditions": [{"type": "Ready", "status": ready}]});
        let name = format!("{node}-{}", self.hash());
        self.set_status(&self.pod_api(), &name, conditions).await;
    }

    /// What is told about a node: whether its kubelet is there.
    pub(crate) async fn report(&self, node: &str, is_ready: bool) {
        let ready = if is_ready { "True" } else { "False" };
        let conditions = json!({"conditions": [{"type": "Ready", "status": ready}]});
        self.set_status(&self.node_api(), node, conditions).await;
    }

    /// What the DaemonSet's controller notes down when its template changes.
    pub(crate) async fn new_revision(&mut self) {
        self.revision += 1;
        let set = self.set().await;
        let revision = json!({
            "metadata": {
                "name": format!("{}-{}", self.set, self.revision),
                "labels": {
                    "csidriver.storage.openshift.io/daemonset": self.set, REVISION: self.hash(),
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": self.set,
                    "uid": set["metadata"]["uid"], "controller": true,
                }],
            },
            "data": {"spec": {}}, "revision": self.revision,
        });
        let revisions = self.api("apps", "v1", "ControllerRevision", "controllerrevisions");
        self.create(&revisions, revision).await;
        self.count().await;
    }

    async fn set(&self) -> Value {
        let sets = self.api("apps", "v1", "DaemonSet", "daemonsets");
        serde_json::to_value(sets.get(&self.set).await.unwrap()).unwrap()
    }

    /// Of driver pods that are of the current template.
    pub(crate) fn hash(&self) -> String {
        format!("v{}", self.revision)
    }

    /// What the DaemonSet's controller and the kubelets do: missing driver pods are made and get ready, pods that are to
    /// go are gone.
    pub(crate) async fn play(&self) {
        for pod in self.pods().await {
            if pod.metadata.deletion_timestamp.is_some() {
                let at_once = DeleteParams::default().grace_period(0);
                let _ = self.pod_api().delete(&pod.name_any(), &at_once).await;
            }
        }
        let there = self.driver_pods().await;
        for node in &self.nodes {
            if there.iter().any(|(on, _)| on == node) || self.node(node).await.is_null() {
                continue;
            }
            let name = format!("{node}-{}", self.hash());
            let labels = json!({
                "csidriver.storage.openshift.io/daemonset": self.set, REVISION: self.hash(),
            });
            let metadata = json!({"name": name, "labels": labels});
            self.start(node, metadata, json!([]), !self.breaks).await;
        }
        self.count().await;
    }

    async fn start(&self, node: &str, metadata: Value, volumes: Value, is_ready: bool) {
        let name = metadata["name"].as_str().unwrap().to_owned();
        let account = json!({"metadata": {"name": "default"}});
        let accounts = self.api("", "v1", "ServiceAccount", "serviceaccounts");
        let account = serde_json::from_value(account).unwrap();
        let _ = accounts.create(&PostParams::default(), &account).await;
        let mut containers = vec![json!({"name": "main", "image": "x"})];
        let ready = if is_ready { "True" } else { "False" };
        let mut running =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        if let Some(sidecar) = self
            .tells_at
            .filter(|_| !metadata["labels"][REVISION].is_null())
        {
            let port = format!("--mounts-port={}", sidecar.port());
            containers.push(json!({"name": "csi-sidecar", "image": "x", "args": [port]}));
            running["podIP"] = json!(sidecar.ip());
        }
        let pod = json!({"metadata": metadata, "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "volumes": volumes,
            "containers": containers,
        }});
        self.create(&self.pod_api(), pod).await;
        self.set_status(&self.pod_api(), &name, running).await;
    }

    /// What the DaemonSet's controller counts.
    pub(crate) async fn count(&self) {
        let set = self.set().await;
        let pods = self.driver_pods().await;
        let updated = pods.iter().filter(|(_, hash)| *hash == self.hash()).count();
        let counts = json!({
            "observedGeneration": set["metadata"]["generation"], "desiredNumberScheduled": self.nodes.len(),
            "currentNumberScheduled": pods.len(), "numberReady": pods.len(), "numberAvailable": pods.len(),
            "updatedNumberScheduled": updated, "numberMisscheduled": 0,
        });
        let sets = self.api("apps", "v1", "DaemonSet", "daemonsets");
        self.set_status(&sets, &self.set, counts).await;
    }

    async fn pods(&self) -> Vec<DynamicObject> {
        self.pod_api()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
    }

    /// Node and revision of each driver pod.
    pub(crate) async fn driver_pods(&self) -> Vec<(String, String)> {
        let pods = self.pods().await;
        let of_driver = pods.iter().filter_map(|pod| {
            let hash = pod.labels().get(REVISION)?.clone();
            let node = pod.data["spec"]["nodeName"].as_str()?.to_owned();
            Some((node, hash))
        });
        of_driver.collect()
    }

    /// A pod of a StatefulSet with a volume of the driver.
    pub(crate) async fn user(&self, name: &str, node: &str) {
        self.user_of("StatefulSet", name, node).await;
    }

    /// A volume of the driver is attached to a node.
    pub(crate) async fn attach(&self, name: &str, node: &str) {
        let volume = format!("{}-{name}", self.namespace);
        let attachment = json!({
            "metadata": {"name": volume},
            "spec": {"attacher": self.driver, "nodeName": node, "source": {"persistentVolumeName": volume}},
        });
        self.create(&self.attachment_api(), attachment).await;
    }

    pub(crate) async fn detach(&self, name: &str) {
        let (name, deletion) = (
            format!("{}-{name}", self.namespace),
            DeleteParams::default(),
        );
        let detached = self.attachment_api().delete(&name, &deletion).await;
        detached.unwrap();
    }

    fn attachment_api(&self) -> Api<DynamicObject> {
        let attachments = resource(
            "storage.k8s.io",
            "v1",
            "VolumeAttachment",
            "volumeattachments",
        );
        Api::all_with(self.client.clone(), &attachments)
    }

    /// A pod of a controller with a volume of the driver.
    pub(crate) async fn user_of(&self, controller: &str, name: &str, node: &str) {
        let volume = json!({
            "metadata": {"name": format!("{}-{name}", self.namespace)},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": self.driver, "volumeHandle": name},
                "claimRef": {"namespace": self.namespace, "name": name},
            },
        });
        let volumes = resource("", "v1", "PersistentVolume", "persistentvolumes");
        let volumes = Api::<DynamicObject>::all_with(self.client.clone(), &volumes);
        self.create(&volumes, volume).await;
        self.start_user(controller, name, node).await;
    }

    /// A controller makes a pod again whose volume is there.
    pub(crate) async fn start_user(&self, controller: &str, name: &str, node: &str) {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": controller, "name": "db", "uid": "1", "controller": true,
        });
        let metadata = json!({"name": name, "labels": {"app": "db"}, "ownerReferences": [owner]});
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
        self.start(node, metadata, volumes, true).await;
    }

    /// The node as JSON; null when it is gone.
    pub(crate) async fn node(&self, name: &str) -> Value {
        let node = self.node_api().get_opt(name).await.unwrap();
        node.map_or(Value::Null, |node| serde_json::to_value(node).unwrap())
    }

    /// Nodes with taints, and their keys without the driver's name.
    pub(crate) async fn taints(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for name in &self.nodes {
            let node = self.node(name).await;
            for taint in node["spec"]["taints"].as_array().into_iter().flatten() {
                let key = taint["key"].as_str().unwrap();
                // The server itself taints nodes that no controller has looked at.
                if !key.starts_with("node.kubernetes.io/") {
                    let key = key.replace(&self.driver, "DRIVER");
                    found.push((name.clone(), key));
                }
            }
        }
        found
    }

    /// Pods of users that are there, and where.
    pub(crate) async fn users(&self) -> Vec<(String, String)> {
        let pods = self.pods().await;
        let users = pods.iter().filter(|pod| pod.labels().contains_key("app"));
        let node = |pod: &DynamicObject| pod.data["spec"]["nodeName"].as_str().unwrap().to_owned();
        users.map(|pod| (pod.name_any(), node(pod))).collect()
    }
}
