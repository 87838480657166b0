//! What the scheduler, the attacher and the kubelets of all nodes would do, at once: pods of DaemonSets go where they belong, all
//! are ready, and those that are to go are gone, and what was attached for them is detached.

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::sidecars;
use super::stage::node_of_user;

/// They play until this is dropped.
pub struct Kubelets(JoinHandle<()>);

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Kubelets {
    /// Starts to play for these pods, and what is attached for them.
    pub fn start(pods: Api<Pod>, attachments: Api<VolumeAttachment>) -> Self {
        Self(tokio::spawn(async move {
            let seen = watcher(pods.clone(), watcher::Config::default());
            let seen = seen.default_backoff().applied_objects();
            // What was too late comes again with the pod's next change.
            let play = seen.try_for_each_concurrent(16, |pod| {
                let (pods, attachments) = (pods.clone(), attachments.clone());
                async move {
                    let _ = play(&pods, &attachments, &pod).await;
                    Ok(())
                }
            });
            let _ = play.await;
        }))
    }
}

async fn play(pods: &Api<Pod>, attachments: &Api<VolumeAttachment>, pod: &Pod) -> kube::Result<()> {
    let name = pod.name_any();
    if pod.metadata.deletion_timestamp.is_some() {
        let at_once = DeleteParams::default().grace_period(0);
        pods.delete(&name, &at_once).await?;
        if let Some(node) = node_of_user(&name) {
            attachments.delete(node, &DeleteParams::default()).await?;
        }
        return Ok(());
    }
    if let Some(node) = node_of(pod) {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        let bound: Value = pods
            .create_subresource("binding", &name, &PostParams::default(), &binding)
            .await?;
        drop(bound);
        return Ok(());
    }
    let status = pod.status.as_ref();
    if status.and_then(|it| it.phase.as_deref()) == Some("Running") {
        return Ok(());
    }
    let (ip, ready) = (
        sidecars::address(),
        json!([{"type": "Ready", "status": "True"}]),
    );
    let ready = json!({"status": {"phase": "Running", "conditions": ready, "podIP": ip, "podIPs": [{"ip": ip}]}});
    let (nothing, ready) = (PatchParams::default(), Patch::Merge(ready));
    pods.patch_status(&name, &nothing, &ready).await.map(drop)
}

/// Where a pod that is nowhere yet belongs, as the controller of DaemonSets says.
fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if spec.node_name.is_some() {
        return None;
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let field = required
        .node_selector_terms
        .first()?
        .match_fields
        .as_ref()?;
    let name = field.first()?.values.as_ref()?.first()?;
    Some(name)
}
