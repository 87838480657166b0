//! A control plane with instances in it.

use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Args;
use crate::latency::Latency;
use crate::operated::Operated;

/// Where all instances are.
pub const NAMESPACE: &str = "drivers";

const OWNER: &str = "csidriver.storage.openshift.io/owner-namespace";

pub struct Stage {
    pub cluster: Operated,
}

impl Stage {
    /// Starts the control plane and makes the instances.
    pub async fn set(args: &Args) -> anyhow::Result<Self> {
        let stage = Self {
            cluster: Operated::start(NAMESPACE).await?,
        };
        stage.register(args).await?;
        let instances = stage.cluster.instances();
        Latency::measure(0..args.drivers, 8, |number| {
            let (instances, classes) = (instances.clone(), args.classes);
            async move {
                let document = serde_json::from_value(instance(number, classes))?;
                instances.create(&PostParams::default(), &document).await?;
                Ok(())
            }
        })
        .await?;
        Ok(stage)
    }

    /// What kubelets say of drivers that have registered.
    async fn register(&self, args: &Args) -> anyhow::Result<()> {
        let drivers: Vec<_> = (0..args.drivers).map(driver_name).collect();
        let nodes = Api::<CSINode>::all(self.cluster.admin.clone());
        Latency::measure(0..args.nodes, 8, |number| {
            let name = format!("node-{number:05}");
            let on_node = drivers
                .iter()
                .map(|driver| json!({"name": driver, "nodeID": name}));
            let spec = json!({"drivers": on_node.collect::<Vec<_>>()});
            let node = json!({"metadata": {"name": name}, "spec": spec});
            let nodes = nodes.clone();
            async move {
                let node = serde_json::from_value(node)?;
                nodes.create(&PostParams::default(), &node).await?;
                Ok(())
            }
        })
        .await?;
        Ok(())
    }

    /// Waits until every instance is in effect.
    pub async fn until_synced(&self, count: usize, patience: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let instances = self
                .cluster
                .instances()
                .list(&ListParams::default())
                .await?;
            let synced = instances.iter().filter(|it| is_synced(it)).count();
            if synced == count {
                return Ok(());
            }
            ensure!(
                started.elapsed() < patience,
                "only {synced} of {count} drivers are in effect after {patience:?}"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// How many objects the instances have.
    pub async fn objects(&self) -> anyhow::Result<usize> {
        let mut count = 0;
        for (group, kind) in [
            ("", "ServiceAccount"),
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
            ("rbac.authorization.k8s.io", "Role"),
            ("rbac.authorization.k8s.io", "RoleBinding"),
            ("storage.k8s.io", "CSIDriver"),
            ("storage.k8s.io", "StorageClass"),
            ("apps", "DaemonSet"),
            ("apps", "Deployment"),
        ] {
            let plural = match kind {
                "StorageClass" => "storageclasses".to_owned(),
                kind => format!("{}s", kind.to_lowercase()),
            };
            let kind = GroupVersionKind::gvk(group, "v1", kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, &plural);
            let api = Api::<DynamicObject>::all_with(self.cluster.admin.clone(), &resource);
            let ours = ListParams::default().labels(OWNER);
            count += api.list_metadata(&ours).await?.items.len();
        }
        Ok(count)
    }
}

fn is_synced(instance: &DynamicObject) -> bool {
    let observed = instance.data["status"]["observedGeneration"].as_i64();
    observed.is_some() && observed == instance.metadata.generation
}

/// The name of an instance.
pub fn instance_name(number: usize) -> String {
    format!("driver-{number:03}")
}

/// What the driver of an instance is called.
fn driver_name(number: usize) -> String {
    format!("{}.bench.example", instance_name(number))
}

fn instance(number: usize, classes: usize) -> Value {
    let name = instance_name(number);
    let container = json!({
        "name": "driver", "image": "example/driver:v1", "args": ["--endpoint=unix:///run/csi/csi.sock"],
        "securityContext": {"privileged": true},
    });
    let pod = json!({"spec": {"containers": [container]}});
    let classes: Vec<_> = (0..classes)
        .map(|class| json!({"metadata": {"name": format!("{name}-{class}")}}))
        .collect();
    json!({
        "apiVersion": "csidriver.storage.openshift.io/v1alpha1",
        "kind": "CSIDriverDeployment",
        "metadata": {"name": name},
        "spec": {
            "driverName": driver_name(number),
            "driverSocket": "/run/csi/csi.sock",
            "nodeUpdateStrategy": "Rolling",
            "driverPerNodeTemplate": pod,
            "driverControllerTemplate": pod,
            "storageClassTemplates": classes,
        },
    })
}
