//! Why a workload has no pods at all, in its own words.

use k8s_openapi::api::core::v1::Event;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};

/// Why a workload has no pods at all: its last event, such as a quota or a policy that refuses them.
pub(super) async fn refused_pods(
    client: &Client,
    object: &DynamicObject,
) -> Result<Option<String>, kube::Error> {
    let Some(namespace) = object.namespace() else {
        return Ok(None);
    };
    let fields = format!(
        "involvedObject.uid={},reason=FailedCreate",
        object.uid().unwrap_or_default()
    );
    let events = Api::<Event>::namespaced(client.clone(), &namespace);
    let events = events.list(&ListParams::default().fields(&fields)).await?;
    let last = events
        .items
        .into_iter()
        .max_by_key(|event| event.last_timestamp.clone());
    Ok(last.and_then(|event| event.message).map(with_remedy))
}

/// Some clusters admit critical pods in kube-system only, and say so in words that few understand.
fn with_remedy(mut refusal: String) -> String {
    if refusal.contains("insufficient quota to match these scopes") {
        refusal.push_str(
            "; set `priorityClassName: \"\"` in the template, or admit the class by a ResourceQuota",
        );
    }
    refusal
}
