//! A WekaContainer of a client: its pod, the CSI node pod beside it, and the labels of its node.
//!
//! A reconcile is `fetch -> decide -> apply -> status`; what is decided depends on what is seen and on nothing else. One
//! that goes drains first: both pods stay until no volume is attached to the node and none is mounted there, then the
//! client's pod goes, then the node pod, then the labels and the finalizer.

mod controller;
mod decide;
mod fetch;
mod labels;
mod mounts;
mod status;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Resource as _, ResourceExt as _};
use stowage_api::weka::WekaContainer;
use stowage_kubernetes::queue::Verdict;

use self::decide::{Decision, PodStep, decide};
use super::context::{Context, verdict};
use super::object::{ensure_finalizer, has_finalizer, release};
use super::problem::Problem;
use crate::driver::{Kind, Object};
use crate::writer::{Key, Recorded};

/// Whether a pod serves.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| &it.conditions).flatten();
    let mut ready = conditions.filter(|it| it.type_ == "Ready");
    ready.any(|it| it.status == "True")
}

/// Brings the pods of a container and the labels of its node to what it describes.
/// Called twice: the second time sends nothing.
pub async fn reconcile(name: &str, context: &Context) -> Verdict {
    let Some(kept) = context.cluster.container(name) else {
        return Verdict::Done;
    };
    let Ok(container) = kept.object.clone() else {
        return Verdict::Done;
    };
    // Those of a cluster are somebody else's.
    if super::cluster::client_of(container.meta()).is_none() {
        return Verdict::Done;
    }
    match act(&container, context).await {
        Ok(None) => Verdict::Done,
        Ok(Some(again)) => Verdict::After(again, None),
        Err(problem) => verdict(&[problem]),
    }
}

/// One round; when to look again though nothing changes.
async fn act(
    container: &Arc<WekaContainer>,
    context: &Context,
) -> Result<Option<Duration>, Problem> {
    let is_leaving = container.meta().deletion_timestamp.is_some();
    if !is_leaving && !ensure_finalizer(container.as_ref(), context).await? {
        return Ok(None);
    }
    if is_leaving && !has_finalizer(container.as_ref()) {
        return Ok(None);
    }
    let mut seen = fetch::fetch(container, context);
    let mut decision = decide(&seen);
    // Before anything is asked: from here on nothing new is sent to the node.
    labels::remove(&decision.lost_labels, &seen, context).await?;
    if decision.relies_on_mounts {
        seen.mounts = mounts::ask(&seen, context).await?;
        decision = decide(&seen);
    }
    let applied = apply(&decision, context).await;
    // Written before the labels: whoever finds them later knows whose they are.
    status::write(container, &decision, applied.as_ref().err(), context).await?;
    labels::set(decision.labels.as_deref(), &seen, context).await?;
    applied?;
    if decision.is_done {
        release(container.as_ref(), context).await?;
    }
    Ok(decision.look_again)
}

async fn apply(decision: &Decision, context: &Context) -> Result<(), Problem> {
    for step in &decision.pods {
        match step {
            PodStep::Create(wanted) => create(wanted, context).await?,
            PodStep::Delete(pod) => delete(pod, context).await?,
        }
    }
    Ok(())
}

/// Called twice: the pod is there.
async fn create(wanted: &Object, context: &Context) -> Result<(), Problem> {
    let nothing = Recorded::default();
    context.writer.write(wanted, None, &nothing).await?;
    tracing::info!(pod = %Key::of_wanted(wanted), "A pod was created.");
    Ok(())
}

/// Called twice: it is going already.
async fn delete(pod: &Pod, context: &Context) -> Result<(), Problem> {
    let namespace = pod.namespace().unwrap_or_default();
    let api = Api::<Pod>::namespaced(context.client.clone(), &namespace);
    let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
    stowage_kubernetes::deletion::delete(&api, &name, &uid).await?;
    context.writer.forget(&Key {
        kind: Kind::Pod,
        namespace: Some(namespace),
        name: name.clone(),
    });
    tracing::info!(pod = name, "A pod was deleted.");
    Ok(())
}
