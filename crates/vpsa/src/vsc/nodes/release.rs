//! Pods and volumes of a node that is lost and fenced.

use std::collections::HashSet;
use std::time::Instant;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use stowage_kubernetes::answer::is_gone_or_replaced;
use stowage_kubernetes::deletion;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::object_error::{ObjectError, explain};
use stowage_kubernetes::pod_claims::claim_of;

use super::quiet::Quiet;
use crate::vsc::write::Writer;

/// Lets pods and volumes of nodes go.
pub struct Release {
    /// The API server.
    pub client: Client,
    /// Tells people.
    pub events: Events,
    /// The driver's name, by which Kubernetes knows its attachments.
    pub driver: String,
    /// When to look again at nodes on which nothing was left.
    pub quiet: Quiet,
}

impl Release {
    /// Whether Kubernetes has no record any more of volumes that were attached to a node when it was fenced.
    pub async fn is_done(&self, node: &str, fence: Option<Timestamp>) -> Result<bool, ObjectError> {
        if self.quiet.is(node, Instant::now()) {
            return Ok(true);
        }
        let is_done = self.attachments(node, fence).await?.is_empty();
        if is_done {
            self.quiet.add(node, Instant::now());
        } else {
            self.quiet.remove(node);
        }
        Ok(is_done)
    }

    /// Deletes the pods of a node that use volumes of this driver without waiting for its kubelet, then Kubernetes' records
    /// that the volumes are attached there. Called twice: nothing is left.
    pub async fn release(&self, node: &str, fence: Option<Timestamp>) -> Result<(), ObjectError> {
        let attachments = self.attachments(node, fence).await?;
        // What is known may be behind, and nobody may start elsewhere as long as an array lets the node write.
        let writer = Writer {
            client: self.client.clone(),
        };
        if writer.is_node_used(node).await? {
            return Ok(());
        }
        let volumes = attachments.iter();
        let volumes = volumes.filter_map(|it| it.spec.source.persistent_volume_name.as_deref());
        let volumes: HashSet<&str> = volumes.collect();
        for pod in self.pods(node).await? {
            if is_older(&pod, fence) && self.uses(&pod, &volumes).await? {
                self.delete_pod(node, &pod).await?;
            }
        }
        let all: Api<VolumeAttachment> = Api::all(self.client.clone());
        for attachment in attachments {
            let (name, uid) = (attachment.name_any(), attachment.uid().unwrap_or_default());
            let deleted = deletion::delete(&all, &name, &uid).await;
            deleted.map_err(explain("delete", "volumeattachments"))?;
        }
        Ok(())
    }

    /// Those from before the fence. A node that is back gets new pods, and records of their volumes with them, which wait until
    /// it is let in.
    async fn attachments(
        &self,
        node: &str,
        fence: Option<Timestamp>,
    ) -> Result<Vec<VolumeAttachment>, ObjectError> {
        let all: Api<VolumeAttachment> = Api::all(self.client.clone());
        let all = all.list(&ListParams::default()).await;
        let mut all = all.map_err(explain("list", "volumeattachments"))?.items;
        all.retain(|it| {
            let is_ours = it.spec.attacher == self.driver && it.spec.node_name == node;
            // Clocks differ: one that is attached was so before.
            let is_attached = it.status.as_ref().is_some_and(|status| status.attached);
            is_ours && (is_attached || is_older(it, fence))
        });
        Ok(all)
    }

    async fn pods(&self, node: &str) -> Result<Vec<Pod>, ObjectError> {
        let all: Api<Pod> = Api::all(self.client.clone());
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods = all.list(&on_node).await;
        Ok(pods.map_err(explain("list", "pods"))?.items)
    }

    async fn uses(&self, pod: &Pod, volumes: &HashSet<&str>) -> Result<bool, ObjectError> {
        let namespace = pod.namespace().unwrap_or_default();
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
        let of_pod = pod.spec.as_ref().and_then(|it| it.volumes.as_ref());
        for volume in of_pod.into_iter().flatten() {
            let Some(name) = claim_of(&pod.name_any(), volume) else {
                continue;
            };
            let claim = claims.get_opt(&name).await;
            let claim = claim.map_err(explain("get", "persistentvolumeclaims"))?;
            let volume = claim.and_then(|it| it.spec?.volume_name);
            if volume.is_some_and(|volume| volumes.contains(volume.as_str())) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn delete_pod(&self, node: &str, pod: &Pod) -> Result<(), ObjectError> {
        let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let at_once = DeleteParams::default().grace_period(0);
        let same = at_once.preconditions(Preconditions {
            uid: pod.uid(),
            resource_version: None,
        });
        match pods.delete(&name, &same).await {
            Err(error) if is_gone_or_replaced(&error) => return Ok(()),
            Err(error) => return Err(explain("delete", "pods")(error)),
            Ok(_) => {}
        }
        let message = format!("node {node} is lost and was fenced: the pod is deleted without it");
        self.events
            .warning(pod.object_ref(&()), "NodeLost", &message);
        tracing::warn!(node, namespace, name, "A pod of a lost node was deleted.");
        Ok(())
    }
}

/// Whether an object was there when its node was fenced.
fn is_older(object: &impl Resource, fence: Option<Timestamp>) -> bool {
    let made = object.meta().creation_timestamp.as_ref();
    made.zip(fence).is_none_or(|(made, fence)| made.0 <= fence)
}
