//! Whom the objects belong to: they go when it goes.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Resource as _};
use stowage_kubernetes::answer;
use stowage_kubernetes::patience::patiently;
use stowage_kubernetes::queue::Backoff;
use tokio_util::sync::CancellationToken;

use crate::args::{Capacity, Owner};

/// Why the owner is not known.
#[derive(Debug, thiserror::Error)]
enum OwnerError {
    #[error("{0} cannot be read: {said}", said = answer::chain(&**.1))]
    Unreadable(String, Box<kube::Error>),
    #[error("{0} has no owner: lower --capacity-ownerref-level")]
    Nobody(String),
}

/// Finds the owner, patiently. The inner `None`: there is to be none. The outer one: asked to stop.
#[allow(clippy::option_option, reason = "two kinds of nothing")]
pub(super) async fn find(
    client: &Client,
    settings: &Capacity,
    pauses: Backoff,
    stop: &CancellationToken,
) -> Option<Option<OwnerReference>> {
    let Some(owner) = &settings.owner else {
        return Some(None);
    };
    let ask = || async {
        let found = climb(client, &settings.namespace, owner).await;
        found.map_err(|error| error.to_string())
    };
    let tell = |reason: &str| {
        tracing::warn!(
            reason,
            "The owner of capacity objects is not known; trying again."
        );
    };
    patiently(stop, pauses, ask, tell).await.map(Some)
}

async fn climb(
    client: &Client,
    namespace: &str,
    owner: &Owner,
) -> Result<OwnerReference, OwnerError> {
    let shown = |kind: &str, name: &str| format!("{kind} `{namespace}/{name}`");
    let unreadable = |shown: String| |error| OwnerError::Unreadable(shown, Box::new(error));
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let pod = pods.get(&owner.pod).await;
    let pod = pod.map_err(unreadable(shown("pod", &owner.pod)))?;
    let mut current = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: owner.pod.clone(),
        uid: pod.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let mut metadata = pod.metadata;
    for level in 1..=owner.level {
        let above = controller_of(&metadata);
        let above = above.ok_or_else(|| OwnerError::Nobody(shown(&current.kind, &current.name)))?;
        if level < owner.level {
            metadata = read(client, namespace, &above)
                .await
                .map_err(unreadable(shown(&above.kind, &above.name)))?;
        }
        current = above;
    }
    current.block_owner_deletion = None;
    Ok(current)
}

fn controller_of(metadata: &ObjectMeta) -> Option<OwnerReference> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .cloned()
}

async fn read(
    client: &Client,
    namespace: &str,
    object: &OwnerReference,
) -> kube::Result<ObjectMeta> {
    let (group, version) = match object.api_version.split_once('/') {
        Some(both) => both,
        None => ("", object.api_version.as_str()),
    };
    let kind = GroupVersionKind::gvk(group, version, &object.kind);
    let kind = ApiResource::from_gvk(&kind);
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind);
    Ok(api.get(&object.name).await?.metadata)
}
