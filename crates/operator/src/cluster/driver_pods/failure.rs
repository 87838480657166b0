//! What keeps a pod from running, in its own words.

use k8s_openapi::api::core::v1::ContainerStatus;
use kube::ResourceExt;
use stowage_api::termination::{Cause, Termination};

use super::DriverPod;

/// What keeps a pod from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFailure {
    /// The pod and its own reason, in one line.
    pub text: String,
    /// The name that the driver itself reports, where it is another than expected.
    pub reported_name: Option<String>,
}

/// What keeps this pod from running, if anything does.
pub(super) fn of(pod: &DriverPod) -> Option<PodFailure> {
    let status = &pod.status;
    let containers = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses);
    let stuck = containers.flatten().find_map(of_container);
    let unscheduled = || {
        let conditions = status.conditions.iter().flatten();
        let condition = conditions
            .into_iter()
            .find(|it| it.type_ == "PodScheduled" && it.status == "False")?;
        let message = condition.message.clone().unwrap_or_default();
        Some((format!("cannot be scheduled: {message}"), None))
    };
    let evicted = || {
        let reason = status.reason.clone()?;
        let message = status.message.clone().unwrap_or_default();
        Some((format!("{reason}: {message}"), None))
    };
    let (reason, reported_name) = stuck.or_else(unscheduled).or_else(evicted)?;
    let node = match &pod.spec.node_name {
        Some(node) => format!(" on node {node}"),
        None => String::new(),
    };
    Some(PodFailure {
        text: format!("Pod {}{node}: {reason}", pod.name_any()),
        reported_name,
    })
}

/// Reason of a container that does not run, and the driver's own name if that is the reason.
fn of_container(container: &ContainerStatus) -> Option<(String, Option<String>)> {
    let state = container.state.as_ref()?;
    let last = container
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    let ended = state
        .terminated
        .as_ref()
        .filter(|it| it.exit_code != 0)
        .or(last);
    let message = ended.and_then(|it| it.message.as_deref());
    let last_words = Termination::read(message.unwrap_or_default());
    let waiting = state.waiting.as_ref();
    let reason = match (waiting, &state.terminated) {
        (Some(waiting), _) => waiting.reason.clone().unwrap_or_default(),
        (None, Some(ended)) if ended.exit_code != 0 => {
            format!("ended with exit code {}", ended.exit_code)
        }
        _ => return None,
    };
    // Every pod passes through these.
    let is_usual = matches!(reason.as_str(), "ContainerCreating" | "PodInitializing");
    if is_usual && last_words.sentence.is_empty() {
        return None;
    }
    let detail = match (
        last_words.sentence.as_str(),
        waiting.and_then(|it| it.message.as_deref()),
    ) {
        ("", Some(message)) => format!(": {message}"),
        ("", None) => String::new(),
        (words, _) => format!(": {words}"),
    };
    Some((
        format!("container {}: {reason}{detail}", container.name),
        last_words.cause.map(|cause| match cause {
            Cause::DriverNameMismatch { reported, .. } => reported,
        }),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> DriverPod {
        serde_json::from_value(json!({
            "metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": []}, "status": status,
        }))
        .unwrap()
    }

    fn container(state: &Value, last: &Value) -> Value {
        json!({"containerStatuses": [{
            "name": "c", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": state,
            "lastState": last,
        }]})
    }

    #[test]
    fn a_pod_tells_its_own_reason() {
        let waiting = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
        for (status, expected) in [
            (
                container(&waiting("ImagePullBackOff", "no such image"), &json!({})),
                Some("Pod p on node n: container c: ImagePullBackOff: no such image"),
            ),
            (
                container(
                    &waiting("CrashLoopBackOff", "back-off"),
                    &json!({"terminated": {"exitCode": 1, "message": "no socket\n"}}),
                ),
                Some("Pod p on node n: container c: CrashLoopBackOff: no socket"),
            ),
            (
                container(&json!({"terminated": {"exitCode": 2}}), &json!({})),
                Some("Pod p on node n: container c: ended with exit code 2"),
            ),
            (
                container(&waiting("ContainerCreating", ""), &json!({})),
                None,
            ),
            (container(&json!({"running": {}}), &json!({})), None),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]}),
                Some("Pod p on node n: cannot be scheduled: 0/3 nodes"),
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "disk"}),
                Some("Pod p on node n: Evicted: disk"),
            ),
        ] {
            let found = of(&pod(&status)).map(|failing_pod| failing_pod.text);
            assert_eq!(found.as_deref(), expected, "{status}");
        }
    }

    #[test]
    fn a_driver_with_another_name_is_recognised() {
        let cause = Cause::DriverNameMismatch {
            expected: "a".to_owned(),
            reported: "b".to_owned(),
        };
        let words = Termination {
            sentence: "nothing was done".to_owned(),
            cause: Some(cause),
        };
        let last = json!({"terminated": {"exitCode": 1, "message": words.to_message()}});
        let status = container(&json!({"waiting": {"reason": "CrashLoopBackOff"}}), &last);
        let failing_pod = of(&pod(&status)).unwrap();
        assert_eq!(failing_pod.reported_name.as_deref(), Some("b"));
        let shown = "Pod p on node n: container c: CrashLoopBackOff: nothing was done";
        assert_eq!(failing_pod.text, shown);
    }
}
