//! A control plane with instances in it.

use std::ops::Deref;
use std::time::Duration;

use anyhow::ensure;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Args;
use crate::control_plane::Measured;
use crate::latency::Latency;

/// Where all instances are.
pub const NAMESPACE: &str = "drivers";

const DEFINITION: &str = include_str!("../../../deploy/crds/csidriver.storage.openshift.io.yaml");
const OWNER: &str = "csidriver.storage.openshift.io/owner-namespace";

pub struct Stage(Measured);

impl Deref for Stage {
    type Target = Measured;

    fn deref(&self) -> &Measured {
        &self.0
    }
}

impl Stage {
    /// Starts the control plane and makes the instances.
    pub async fn set(args: &Args) -> anyhow::Result<Self> {
        let measured = Measured::start(|plane| {
            plane.kubectl_with_input(&["apply", "-f", "-"], DEFINITION)?;
            plane.wait_for_definitions()?;
            plane.kubectl(&["create", "namespace", NAMESPACE])?;
            Ok(())
        });
        let stage = Self(measured.await?);
        let instances = stage.instances();
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

    /// How the operator is started.
    pub fn arguments(&self) -> Vec<String> {
        vec![
            "operator".to_owned(),
            format!("--kubeconfig={}", self.kubeconfig.display()),
            "--leader-election=true".to_owned(),
            format!("--leader-election-namespace={NAMESPACE}"),
        ]
    }

    /// Waits until every instance is in effect.
    pub async fn until_synced(&self, count: usize, patience: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let instances = self.instances().list(&ListParams::default()).await?;
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
            let api = Api::<DynamicObject>::all_with(self.admin.clone(), &resource);
            let ours = ListParams::default().labels(OWNER);
            count += api.list_metadata(&ours).await?.items.len();
        }
        Ok(count)
    }

    fn instances(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(
            "csidriver.storage.openshift.io",
            "v1alpha1",
            "CSIDriverDeployment",
        );
        let resource = ApiResource::from_gvk_with_plural(&kind, "csidriverdeployments");
        Api::namespaced_with(self.admin.clone(), NAMESPACE, &resource)
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
            "driverName": format!("{name}.bench.example"),
            "driverSocket": "/run/csi/csi.sock",
            "nodeUpdateStrategy": "Rolling",
            "driverPerNodeTemplate": pod,
            "driverControllerTemplate": pod,
            "storageClassTemplates": classes,
        },
    })
}
