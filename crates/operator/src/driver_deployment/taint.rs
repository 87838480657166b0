//! Taints of nodes: read, and replaced as a whole.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::json;
use stowage_kubernetes::answer::Answer;
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};

/// The taints of a node.
pub(super) fn of(node: &Node) -> Vec<Taint> {
    let spec = node.spec.as_ref();
    let taints = spec.and_then(|spec| spec.taints.clone());
    taints.unwrap_or_default()
}

/// Gives a node these taints, only if nobody changed it meanwhile: their taint would be lost.
pub(super) async fn replace(client: &Client, node: &Node, taints: &[Taint]) -> Result<(), Error> {
    let version = json!(node.metadata.resource_version);
    let patch = ObjectPatch::of(&node.uid().unwrap_or_default())
        .test(["metadata", "resourceVersion"], version)
        .set(["spec", "taints"], json!(taints));
    let nodes = Api::<Node>::all(client.clone());
    let (name, patch) = (node.name_any(), patch.into_patch());
    nodes.patch(&name, &PARAMS, &patch).await.map(|_| ())
}

/// Takes taints from the node of a name. Somebody else may change it at the same time, such as its kubelet that has just
/// started: then once more. Called twice: they are gone.
pub(super) async fn remove_from(
    client: &Client,
    name: &str,
    is_theirs: impl Fn(&Taint) -> bool,
) -> Result<(), Error> {
    const ATTEMPTS: usize = 5;
    let nodes = Api::<Node>::all(client.clone());
    let mut failed = None;
    for _ in 0..ATTEMPTS {
        let Some(node) = nodes.get_opt(name).await? else {
            return Ok(());
        };
        match remove(client, &node, &is_theirs).await {
            Err(error) if Answer::of(&error).is_stale() => failed = Some(error),
            removed => return removed,
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Takes taints away. Called twice: they are gone.
pub(super) async fn remove(
    client: &Client,
    node: &Node,
    is_theirs: impl Fn(&Taint) -> bool,
) -> Result<(), Error> {
    let before = of(node);
    let after: Vec<_> = before.iter().filter(|it| !is_theirs(it)).cloned().collect();
    if after.len() == before.len() {
        return Ok(());
    }
    match replace(client, node, &after).await {
        Err(error) if stowage_kubernetes::answer::is_gone(&error) => Ok(()),
        replaced => replaced,
    }
}
