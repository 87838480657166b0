//! What is kept of each kind.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, PodStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::{Resource, ResourceExt as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use stowage_api::weka::CONTAINER_UID_LABEL;
use stowage_kubernetes::raw::Raw;
use stowage_kubernetes::store::{Cached, exact};

use crate::cluster::ReducedAttachment;
use crate::weka::nodes;
use crate::weka::plan::title;

/// An object that is found by its uid, its title and its groups.
#[derive(Debug)]
pub struct Kept<K> {
    uid: String,
    groups: Vec<String>,
    /// As the server sent it.
    pub raw: DynamicObject,
    /// What it says, or why it cannot be read.
    pub object: Result<Arc<K>, String>,
}

impl<K: Send + Sync + 'static> Cached for Kept<K> {
    fn key(&self) -> &str {
        &self.uid
    }

    fn key_of(metadata: &ObjectMeta) -> Option<&str> {
        metadata.uid.as_deref()
    }

    fn groups(&self) -> Vec<String> {
        self.groups.clone()
    }
}

/// A pod.
#[derive(Debug)]
pub struct KeptPod {
    uid: String,
    /// The pod.
    pub pod: Pod,
}

impl Cached for KeptPod {
    fn key(&self) -> &str {
        &self.uid
    }

    fn key_of(metadata: &ObjectMeta) -> Option<&str> {
        metadata.uid.as_deref()
    }

    fn groups(&self) -> Vec<String> {
        let beside = self.pod.labels().get(CONTAINER_UID_LABEL);
        let beside = beside.map(|uid| format!("beside/{uid}"));
        [Some(title(&self.pod)), beside]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// A node: only what clients are placed by.
#[derive(Debug, PartialEq)]
pub struct KeptNode(pub nodes::Node);

impl Cached for KeptNode {
    fn key(&self) -> &str {
        &self.0.name
    }
}

/// A volume that is attached to a node, or about to be.
#[derive(Debug)]
pub struct Attachment {
    name: String,
    /// The node.
    pub node: String,
    /// The driver and the node, by which it is found.
    pub place: String,
}

impl Cached for Attachment {
    fn key(&self) -> &str {
        &self.name
    }

    fn group(&self) -> Option<String> {
        Some(self.place.clone())
    }
}

stowage_kubernetes::reduced!(
    /// A Node: labels and taints.
    ReducedNode as Node { spec: ReducedNodeSpec }
);

/// What is read of a node's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReducedNodeSpec {
    taints: Option<Vec<Taint>>,
}

/// Keeps objects, in groups by title and by what they say.
pub fn keep<K>(
    groups: impl Fn(&K) -> Vec<String> + Send + 'static,
) -> impl Fn(Raw<K>) -> Option<Kept<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    move |mut raw| {
        raw.object.metadata.managed_fields = None;
        let object = raw.typed().map(Arc::new);
        // What is compared and written back is the rest. Where nobody can read it, it says what there was.
        if let Some(fields) = raw.object.data.as_object_mut().filter(|_| object.is_ok()) {
            fields.remove("status");
        }
        let mut all = vec![title(&raw)];
        all.extend(object.iter().flat_map(|object| groups(object)));
        Some(Kept {
            uid: raw.object.metadata.uid.clone()?,
            groups: all,
            raw: raw.object,
            object,
        })
    }
}

pub fn read_node(node: ReducedNode) -> Option<KeptNode> {
    let metadata = node.metadata;
    Some(KeptNode(nodes::Node {
        name: metadata.name?,
        uid: metadata.uid.unwrap_or_default(),
        labels: metadata.labels.unwrap_or_default(),
        taints: node.spec.taints.unwrap_or_default(),
    }))
}

/// Only what is looked at: there are two for each node.
pub fn read_pod(mut pod: Pod) -> Option<KeptPod> {
    pod.metadata.managed_fields = None;
    let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
    let containers = containers.into_iter().map(|it| Container {
        name: it.name,
        image: it.image,
        ..Container::default()
    });
    let status = pod.status.unwrap_or_default();
    let mut conditions = status.conditions.unwrap_or_default();
    conditions.retain(|it| it.type_ == "Ready");
    let uid = pod.metadata.uid.clone()?;
    let pod = Pod {
        spec: Some(PodSpec {
            containers: exact(containers.collect()),
            ..PodSpec::default()
        }),
        status: Some(PodStatus {
            phase: status.phase,
            conditions: Some(exact(conditions)),
            pod_ips: status.pod_ips,
            ..PodStatus::default()
        }),
        metadata: pod.metadata,
    };
    Some(KeptPod { uid, pod })
}

/// Only where it is attached.
pub fn read_attachment(attachment: ReducedAttachment) -> Option<Attachment> {
    let spec = attachment.spec;
    Some(Attachment {
        name: attachment.metadata.name?,
        place: place(&spec.attacher, &spec.node_name),
        node: spec.node_name,
    })
}

/// By which attachments are found.
pub fn place(driver: &str, node: &str) -> String {
    format!("{driver} {node}")
}
