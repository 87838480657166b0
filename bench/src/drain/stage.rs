//! A control plane with nodes, an instance, and pods that use its volumes.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stowage_api::mounts::PORT_FLAG;
use tokio::time::{Instant, sleep};

use super::sidecars::Sidecars;
use crate::latency::Latency;
use crate::operated::Operated;

/// Where everything is.
const NAMESPACE: &str = "drained";
/// Name of the instance.
const INSTANCE: &str = "driver";
const DRIVER: &str = "driver.bench.example";
/// How the names of pods begin that use the driver.
const USER: &str = "user-";

pub struct Stage {
    pub cluster: Operated,
}

impl Stage {
    /// Starts the control plane; the operator finds nodes, the instance, and pods that use its volumes.
    pub async fn set(nodes: usize) -> anyhow::Result<Self> {
        let stage = Self {
            cluster: Operated::start(NAMESPACE).await?,
        };
        let admin = &stage.cluster.admin;
        let all = Api::<Node>::all(admin.clone());
        make(
            &all,
            0..nodes,
            |name| json!({"metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}}}),
        )
        .await?;
        let ready =
            json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}]}});
        Latency::measure(0..nodes, 8, |number| {
            let (all, ready) = (all.clone(), Patch::Merge(ready.clone()));
            async move {
                let nothing = PatchParams::default();
                all.patch_status(&node_name(number), &nothing, &ready)
                    .await?;
                Ok(())
            }
        })
        .await?;
        let registered = Api::<CSINode>::all(admin.clone());
        make(&registered, 0..nodes, |name| {
            let drivers = json!([{"name": DRIVER, "nodeID": name}]);
            json!({"metadata": {"name": name}, "spec": {"drivers": drivers}})
        })
        .await?;
        let volumes = Api::<PersistentVolume>::all(admin.clone());
        make(&volumes, 0..nodes, |name| {
            json!({"metadata": {"name": name}, "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "bench",
                "csi": {"driver": DRIVER, "volumeHandle": name},
                "claimRef": {"namespace": NAMESPACE, "name": name},
            }})
        })
        .await?;
        stage.add_users(0..nodes).await?;
        let instance = serde_json::from_value(instance())?;
        let nothing = PostParams::default();
        stage
            .cluster
            .instances()
            .create(&nothing, &instance)
            .await?;
        Ok(stage)
    }

    /// Adds a pod that uses the driver to each of these nodes, where its volume is attached.
    pub async fn add_users(&self, nodes: Range<usize>) -> anyhow::Result<()> {
        make(&self.attachments(), nodes.clone(), |name| {
            let source = json!({"persistentVolumeName": name});
            json!({"metadata": {"name": name}, "spec": {"attacher": DRIVER, "nodeName": name, "source": source}})
        })
        .await?;
        make(&self.pods(), nodes, |name| {
            json!({"metadata": {"name": user_name(name)}, "spec": {
                "nodeName": name, "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "x"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
            }})
        })
        .await
    }

    /// The driver's pods, and those that use it.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.admin.clone(), NAMESPACE)
    }

    /// What is attached, by node.
    pub fn attachments(&self) -> Api<VolumeAttachment> {
        Api::all(self.cluster.admin.clone())
    }

    /// Sidecars that answer as those of the driver's pods would.
    pub async fn sidecars(&self) -> anyhow::Result<Sidecars> {
        let set = self.set_of_driver().await?.context("no DaemonSet")?;
        let args = set.data["spec"]["template"]["spec"]["containers"].as_array();
        let args = args
            .into_iter()
            .flatten()
            .filter_map(|it| it["args"].as_array());
        let mut ports = args.flatten().filter_map(|it| {
            let port = it.as_str()?.strip_prefix(PORT_FLAG)?;
            port.strip_prefix('=')?.parse().ok()
        });
        let port = ports
            .next()
            .context("nodes are not asked what is mounted")?;
        Sidecars::start(DRIVER, port).await
    }

    /// Waits until all of so many nodes have the driver.
    pub async fn until_complete(&self, nodes: usize, patience: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        while self.updated().await? < nodes {
            let late = started.elapsed() > patience;
            ensure!(!late, "not all nodes have the driver after {patience:?}");
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// On how many nodes the driver's pod is of the current template, by the count of the DaemonSet's controller.
    pub async fn updated(&self) -> anyhow::Result<usize> {
        let Some(set) = self.set_of_driver().await? else {
            return Ok(0);
        };
        let status = &set.data["status"];
        let is_seen = status["observedGeneration"].as_i64() == set.metadata.generation;
        let updated = status["updatedNumberScheduled"].as_u64();
        let updated = updated.filter(|_| is_seen).unwrap_or_default();
        Ok(usize::try_from(updated)?)
    }

    async fn set_of_driver(&self) -> anyhow::Result<Option<DynamicObject>> {
        let kind = GroupVersionKind::gvk("apps", "v1", "DaemonSet");
        let resource = ApiResource::from_gvk_with_plural(&kind, "daemonsets");
        let sets =
            Api::<DynamicObject>::namespaced_with(self.cluster.admin.clone(), NAMESPACE, &resource);
        Ok(sets.get_opt(&format!("{INSTANCE}-node")).await?)
    }

    /// An update begins.
    pub async fn change_template(&self) -> anyhow::Result<()> {
        let field = "/spec/driverPerNodeTemplate/spec/terminationGracePeriodSeconds";
        let change = json!([{"op": "add", "path": field, "value": 7}]);
        let change = Patch::<()>::Json(serde_json::from_value(change)?);
        let nothing = PatchParams::default();
        self.cluster
            .instances()
            .patch(INSTANCE, &nothing, &change)
            .await?;
        // What was counted of the template before is not to be taken for the new one.
        while self.updated().await? > 0 {
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// Makes an object for each node.
async fn make<K>(
    api: &Api<K>,
    nodes: Range<usize>,
    object: impl Fn(&str) -> Value,
) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    Latency::measure(nodes, 8, |number| {
        let (api, object) = (api.clone(), object(&node_name(number)));
        async move {
            let object = serde_json::from_value(object)?;
            api.create(&PostParams::default(), &object).await?;
            Ok(())
        }
    })
    .await?;
    Ok(())
}

pub fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

/// The pod on a node that uses the driver.
pub fn user_name(node: &str) -> String {
    format!("{USER}{node}")
}

/// The node of a pod that uses the driver.
pub fn node_of_user(pod: &str) -> Option<&str> {
    pod.strip_prefix(USER)
}

fn instance() -> Value {
    let container = json!({"name": "driver", "image": "example/driver:v1", "securityContext": {"privileged": true},
        "args": ["--endpoint=unix:///run/csi/csi.sock"]});
    json!({
        "apiVersion": "csidriver.storage.openshift.io/v1alpha1",
        "kind": "CSIDriverDeployment",
        "metadata": {"name": INSTANCE},
        "spec": {
            "driverName": DRIVER,
            "driverSocket": "/run/csi/csi.sock",
            "nodeUpdateStrategy": "Draining",
            "nodeDrain": {"barePods": "Evict"},
            "driverPerNodeTemplate": {"spec": {"containers": [container]}},
            "storageClassTemplates": [{"metadata": {"name": "bench"}}],
        },
    })
}
