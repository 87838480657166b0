//! What is done to a node: its taint, and evictions.

use http::header::CONTENT_TYPE;
use k8s_openapi::api::core::v1::{self, Node};
use kube::core::Status;
use kube::{Client, Error};
use serde_json::{Value, json};
use stowage_api::driver_deployment::{DRAINING_EFFECT, DRAINING_TAINTS, draining_taint};
use stowage_kubernetes::answer::is_gone_or_replaced;

use super::users::User;
use crate::driver_deployment::taint;

/// Cause of a refusal that is a PodDisruptionBudget's.
const BUDGET: &str = "DisruptionBudget";

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

    /// As nodes have it.
    pub(super) fn taint(&self) -> v1::Taint {
        v1::Taint {
            key: self.key.clone(),
            value: Some(self.value.clone()),
            effect: DRAINING_EFFECT.to_owned(),
            time_added: None,
        }
    }

    pub(super) fn is_of_key(&self, taint: &v1::Taint) -> bool {
        taint.key == self.key && taint.effect == DRAINING_EFFECT
    }

    /// Also one of a name that the driver had before.
    pub(super) fn is_ours(&self, taint: &v1::Taint) -> bool {
        is_of(&self.value, taint)
    }

    /// Keeps pods away that do not run there yet. Called twice: it is there once.
    pub(super) async fn add(&self, client: &Client, node: &Node) -> Result<(), Error> {
        let mut taints = taint::of(node);
        if taints.iter().any(|it| self.is_of_key(it)) {
            return Ok(());
        }
        taints.push(self.taint());
        taint::replace(client, node, &taints).await
    }

    /// Lets pods back. Called twice: it is gone. What somebody else set stays.
    pub(super) async fn remove(&self, client: &Client, node: &Node) -> Result<(), Error> {
        taint::remove(client, node, |it| self.is_ours(it)).await
    }
}

/// Whether a taint was set for an instance, whatever its driver was called then.
fn is_of(uid: &str, taint: &v1::Taint) -> bool {
    let is_draining = taint.key.starts_with(DRAINING_TAINTS) && taint.effect == DRAINING_EFFECT;
    is_draining && taint.value.as_deref() == Some(uid)
}

/// Lets pods back to these nodes, as far as an instance has kept them away. Called twice: the second time finds no taint.
pub(super) async fn release(client: &Client, uid: &str, nodes: &[String]) -> Result<(), Error> {
    for node in nodes {
        taint::remove_from(client, node, |it| is_of(uid, it)).await?;
    }
    Ok(())
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
        Err(error) if is_gone_or_replaced(&error) => Ok(None),
        Err(Error::Api(status)) => Ok(Some(refusal(&status))),
        Err(error) => Err(error),
    }
}

/// Why a pod may not be evicted.
fn refusal(status: &Status) -> String {
    let told = &status.message;
    match status.code {
        429 => {
            let causes = status.details.iter().flat_map(|it| &it.causes);
            let mut budgets = causes.filter(|it| it.reason == BUDGET);
            match budgets.next() {
                Some(budget) => format!("its budget allows no disruption ({})", budget.message),
                // It says so to everybody, whatever they ask for.
                None => format!("the API server has too much to do: {told}"),
            }
        }
        // Several budgets for one pod: the server refuses to choose.
        500 => told.clone(),
        401 | 403 if told.contains(" cannot ") => {
            format!(
                "the operator may not evict it: {told}; `operator.draining: true` of the chart, or `deploy/draining.yaml`, grants that"
            )
        }
        _ => format!("its eviction is refused: {told}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_budget_is_told_as_one() {
        let told = |status: Value| refusal(&serde_json::from_value(status).unwrap());
        let budget = json!({
            "code": 429, "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "details": {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget db needs 1"}]},
        });
        let expected = "its budget allows no disruption (The disruption budget db needs 1)";
        assert_eq!(told(budget), expected);
        let busy = json!({"code": 429, "message": "Too many requests, please try again later."});
        let expected =
            "the API server has too much to do: Too many requests, please try again later.";
        assert_eq!(told(busy), expected);
    }
}
