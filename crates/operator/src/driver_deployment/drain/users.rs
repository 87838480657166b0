//! Which pods of a node use a driver, and what becomes of each.

use k8s_openapi::api::core::v1::{Pod, Taint};
use kube::ResourceExt;
use stowage_api::driver_deployment::HOLD_ANNOTATION;

use crate::driver::valid::DrainRules;
use crate::tolerations::tolerates;

/// Marks pods that a kubelet runs from a file: the API server cannot remove them.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod that uses the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) fate: Fate,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is asked to go, and comes back elsewhere.
    Evict,
    /// It is on its way.
    Leaves,
    /// It stays where it is, and the node waits for it. Why.
    Held(&'static str),
}

impl User {
    /// How people know it.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A pod that uses the driver, unless such pods are left where they are. `taint` keeps new ones away.
pub(super) fn user(pod: &Pod, rules: &DrainRules, taint: &Taint) -> Option<User> {
    Some(User {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        fate: fate(pod, rules, taint)?,
    })
}

fn fate(pod: &Pod, rules: &DrainRules, taint: &Taint) -> Option<Fate> {
    let mut owners = pod.owner_references().iter();
    let owner = owners.find(|it| it.controller == Some(true));
    if pod.annotations().contains_key(MIRROR) {
        let why = "it is a static pod, which only its node's file can remove";
        return Some(Fate::Held(why));
    }
    if owner.is_some_and(|it| it.kind == "DaemonSet") {
        let why = "its DaemonSet keeps it on the node; `daemonSetPods: Ignore` leaves it there";
        return (!rules.ignores_daemon_sets).then_some(Fate::Held(why));
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(Fate::Leaves);
    }
    if pod.annotations().get(HOLD_ANNOTATION).map(String::as_str) == Some("true") {
        return Some(Fate::Held("its annotation asks for it"));
    }
    if owner.is_none() && !rules.evicts_bare_pods {
        let why = "it has no controller that would make it again; `barePods: Evict` evicts it";
        return Some(Fate::Held(why));
    }
    let volumes = pod.spec.iter().filter_map(|spec| spec.volumes.as_ref());
    let has_data = volumes.flatten().any(|volume| volume.empty_dir.is_some());
    if has_data && !rules.evicts_empty_dirs {
        let why = "the content of its emptyDir would be lost; `emptyDirPods: Evict` evicts it";
        return Some(Fate::Held(why));
    }
    if owner.is_some() && is_tolerated(pod, taint) {
        let why = "it tolerates the taint `draining.stowage.dev` and would come back; delete it, or take the toleration away";
        return Some(Fate::Held(why));
    }
    Some(Fate::Evict)
}

fn is_tolerated(pod: &Pod, taint: &Taint) -> bool {
    let tolerations = pod.spec.iter().flat_map(|spec| &spec.tolerations).flatten();
    tolerations.into_iter().any(|it| tolerates(it, taint))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::decide::tests::RULES;
    use super::*;

    fn pod(change: impl FnOnce(&mut Value)) -> Pod {
        let mut pod = json!({
            "metadata": {
                "name": "db-0", "namespace": "default", "uid": "1",
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "2", "controller": true,
                }],
                "annotations": {},
            },
            "spec": {"containers": [], "volumes": [{"name": "data"}]},
        });
        change(&mut pod);
        serde_json::from_value(pod).unwrap()
    }

    fn fate(pod: &Pod, rules: &DrainRules) -> Option<Fate> {
        let taint = Taint {
            key: "draining.stowage.dev/d".to_owned(),
            value: Some("uid".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        };
        super::fate(pod, rules, &taint)
    }

    #[test]
    fn pods_that_come_back_elsewhere_are_evicted_and_the_others_are_waited_for() {
        let held = |pod: &Pod, rules: &DrainRules| match fate(pod, rules) {
            Some(Fate::Held(why)) => why,
            _ => "",
        };
        assert_eq!(fate(&pod(|_| ()), &RULES), Some(Fate::Evict));
        let leaves = pod(|it| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        assert_eq!(fate(&leaves, &RULES), Some(Fate::Leaves));

        let bare = pod(|it| it["metadata"]["ownerReferences"] = json!([]));
        let evicts = DrainRules {
            evicts_bare_pods: true,
            evicts_empty_dirs: true,
            ignores_daemon_sets: true,
            ..RULES
        };
        assert!(held(&bare, &RULES).contains("no controller"));
        assert_eq!(fate(&bare, &evicts), Some(Fate::Evict));

        let scratch = pod(|it| it["spec"]["volumes"][0]["emptyDir"] = json!({}));
        assert!(held(&scratch, &RULES).contains("emptyDir"));
        assert_eq!(fate(&scratch, &evicts), Some(Fate::Evict));

        let of_daemon_set = |it: &mut Value| {
            it["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
        };
        assert!(held(&pod(of_daemon_set), &RULES).contains("DaemonSet"));
        assert_eq!(fate(&pod(of_daemon_set), &evicts), None);

        let tolerant = |it: &mut Value| it["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        assert!(held(&pod(tolerant), &evicts).contains("tolerates"));
        let bare = pod(|it| {
            tolerant(it);
            it["metadata"]["ownerReferences"] = json!([]);
        });
        assert_eq!(
            fate(&bare, &evicts),
            Some(Fate::Evict),
            "nobody makes it again"
        );
        let of_others = |it: &mut Value| {
            it["spec"]["tolerations"] = json!([{"key": "mine", "operator": "Exists"}]);
        };
        assert_eq!(fate(&pod(of_others), &RULES), Some(Fate::Evict));

        // No rule is stronger than these.
        let mirror = pod(|it| it["metadata"]["annotations"][MIRROR] = json!("hash"));
        assert!(held(&mirror, &evicts).contains("static pod"));
        let holds = pod(|it| it["metadata"]["annotations"][HOLD_ANNOTATION] = json!("true"));
        assert!(held(&holds, &evicts).contains("annotation"));
        let other = pod(|it| it["metadata"]["annotations"][HOLD_ANNOTATION] = json!("false"));
        assert_eq!(fate(&other, &RULES), Some(Fate::Evict));
    }
}
