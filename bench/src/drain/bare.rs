//! The floor: somebody empties nodes one after the other, and does no more than must be done.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::stage::{Stage, node_name, user_name};

impl Stage {
    /// Taints nodes, evicts their pods, replaces the driver's pod, and takes the taint away; how long it took.
    pub async fn empty_by_hand(&self, nodes: usize) -> anyhow::Result<Duration> {
        let started = Instant::now();
        for number in 0..nodes {
            self.empty(&node_name(number)).await?;
        }
        Ok(started.elapsed())
    }

    async fn empty(&self, node: &str) -> anyhow::Result<()> {
        let (nodes, nothing) = (
            Api::<Node>::all(self.cluster.admin.clone()),
            PatchParams::default(),
        );
        let before = nodes.get(node).await?.spec.and_then(|spec| spec.taints);
        let mut taints = json!(before.clone().unwrap_or_default());
        if let Some(taints) = taints.as_array_mut() {
            taints.push(json!({"key": "bench", "effect": "NoSchedule"}));
        }
        let tainted = Patch::Merge(json!({"spec": {"taints": taints}}));
        nodes.patch(node, &nothing, &tainted).await?;
        let (pods, user) = (self.pods(), user_name(node));
        pods.evict(&user, &EvictParams::default()).await?;
        while pods.get_metadata_opt(&user).await?.is_some() {
            sleep(LOOK).await;
        }
        let attachments = self.attachments();
        while attachments.get_metadata_opt(node).await?.is_some() {
            sleep(LOOK).await;
        }
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        for driver in pods.list_metadata(&on_node).await? {
            let name = driver.name_any();
            pods.delete(&name, &DeleteParams::default()).await?;
            let is_new = |pod: &Pod| pod.name_any() != name && is_running(pod);
            while !pods.list(&on_node).await?.iter().any(is_new) {
                sleep(LOOK).await;
            }
        }
        let untainted = Patch::Merge(json!({"spec": {"taints": before}}));
        nodes.patch(node, &nothing, &untainted).await?;
        Ok(())
    }
}

/// How long it looks away.
const LOOK: Duration = Duration::from_millis(2);

fn is_running(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase == Some("Running")
}
