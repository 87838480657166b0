//! What is done to a node: its taint, and evictions.

use http::header::CONTENT_TYPE;
use k8s_openapi::api::core::v1::{self, Node};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::{Value, json};
use stowage_api::driver_deployment::{DRAINING_EFFECT, draining_taint};
use stowage_kubernetes::answer::{is_gone, is_gone_or_replaced};
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};

use super::users::User;

/// The taint of one instance.
pub(super) struct TaintOf {
    key: String,
    /// Whose it is.
    value: String,
}

impl TaintOf {
    pub(super) fn new(driver: &str, uid: &str) -> Self {
        Self {
            key: draining_taint(driver),
            value: uid.to_owned(),
        }
    }

    pub(super) fn is_of_key(&self, taint: &v1::Taint) -> bool {
        taint.key == self.key && taint.effect == DRAINING_EFFECT
    }

    pub(super) fn is_ours(&self, taint: &v1::Taint) -> bool {
        self.is_of_key(taint) && taint.value.as_ref() == Some(&self.value)
    }

    /// Keeps pods away that do not run there yet. Called twice: it is there once.
    pub(super) async fn add(&self, client: &Client, node: &Node) -> Result<(), Error> {
        let mut taints = taints(node);
        if taints.iter().any(|it| self.is_of_key(it)) {
            return Ok(());
        }
        taints.push(v1::Taint {
            key: self.key.clone(),
            value: Some(self.value.clone()),
            effect: DRAINING_EFFECT.to_owned(),
            time_added: None,
        });
        replace(client, node, &taints).await
    }

    /// Lets pods back. Called twice: it is gone. What somebody else set stays.
    pub(super) async fn remove(&self, client: &Client, node: &Node) -> Result<(), Error> {
        let before = taints(node);
        let after: Vec<_> = before
            .iter()
            .filter(|it| !self.is_ours(it))
            .cloned()
            .collect();
        if after.len() == before.len() {
            return Ok(());
        }
        match replace(client, node, &after).await {
            Err(error) if is_gone(&error) => Ok(()),
            replaced => replaced,
        }
    }
}

fn taints(node: &Node) -> Vec<v1::Taint> {
    let spec = node.spec.as_ref();
    let taints = spec.and_then(|spec| spec.taints.clone());
    taints.unwrap_or_default()
}

/// Only if nobody changed the node meanwhile: their taint would be lost.
async fn replace(client: &Client, node: &Node, taints: &[v1::Taint]) -> Result<(), Error> {
    let version = json!(node.metadata.resource_version);
    let patch = ObjectPatch::of(&node.uid().unwrap_or_default())
        .test(["metadata", "resourceVersion"], version)
        .set(["spec", "taints"], json!(taints));
    let nodes = Api::<Node>::all(client.clone());
    let (name, patch) = (node.name_any(), patch.into_patch());
    nodes.patch(&name, &PARAMS, &patch).await.map(|_| ())
}

/// Asks a pod to go as far as its budgets admit; why it stays, if it does. Called twice: it goes once.
pub(super) async fn evict(client: &Client, user: &User) -> Result<Option<String>, Error> {
    // The client's own eviction does not send the precondition.
    let User {
        namespace,
        name,
        uid,
        ..
    } = user;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
    let eviction = json!({
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": {"preconditions": {"uid": uid}},
    });
    let request = http::Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .body(eviction.to_string().into_bytes());
    let request = request.map_err(Error::HttpError)?;
    match client.request::<Value>(request).await {
        Ok(_) => Ok(None),
        Err(Error::Api(status)) if status.code == 429 => {
            let causes = status.details.iter().flat_map(|it| &it.causes);
            let told = causes.map(|it| it.message.as_str()).next();
            let told = told.map_or_else(String::new, |it| format!(" ({it})"));
            Ok(Some(format!("its budget allows no disruption{told}")))
        }
        // Several budgets for one pod: the server refuses to choose.
        Err(Error::Api(status)) if status.code == 500 => Ok(Some(status.message.clone())),
        Err(error) if is_gone_or_replaced(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
