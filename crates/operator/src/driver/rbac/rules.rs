//! The rules as tables: what each sidecar needs, and what the operator itself does.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stowage_kubernetes::rights::Right;

use crate::driver::valid::ControllerRole;

pub(super) const CORE: &str = "";
const STORAGE: &str = "storage.k8s.io";
const SNAPSHOT: &str = "snapshot.storage.k8s.io";
const GROUP_SNAPSHOT: &str = "groupsnapshot.storage.k8s.io";

/// One group and resource, and verbs in the order in which they are written.
pub(crate) type Rule = (&'static str, &'static str, &'static str);

const READ: &str = "get list watch";
const EVENTS: Rule = (CORE, "events", "list watch create update patch");

/// Rules in the whole cluster.
pub(super) const fn cluster_rules(role: ControllerRole) -> &'static [Rule] {
    match role {
        ControllerRole::Provisioner => &[
            (
                CORE,
                "persistentvolumes",
                "get list watch create patch delete",
            ),
            (CORE, "persistentvolumeclaims", "get list watch update"),
            // The uid of kube-system tells this cluster from others.
            (CORE, "namespaces", "get"),
            (CORE, "nodes", READ),
            EVENTS,
            (STORAGE, "storageclasses", READ),
            (STORAGE, "csinodes", READ),
            // Whether the driver is being uninstalled.
            (STORAGE, "csidrivers", READ),
            (STORAGE, "volumeattachments", READ),
            (STORAGE, "volumeattributesclasses", READ),
            (SNAPSHOT, "volumesnapshots", "get list watch update"),
            (SNAPSHOT, "volumesnapshotcontents", "get list"),
        ],
        ControllerRole::Attacher => &[
            (CORE, "persistentvolumes", "get list watch patch"),
            (STORAGE, "csinodes", READ),
            (STORAGE, "volumeattachments", "get list watch patch"),
            (STORAGE, "volumeattachments/status", "patch"),
        ],
        ControllerRole::Resizer => &[
            (CORE, "persistentvolumes", "get list watch patch"),
            (CORE, "persistentvolumeclaims", READ),
            (CORE, "persistentvolumeclaims/status", "patch"),
            (CORE, "pods", READ),
            EVENTS,
            (STORAGE, "volumeattributesclasses", READ),
        ],
        ControllerRole::Snapshotter => &[
            EVENTS,
            (SNAPSHOT, "volumesnapshotclasses", READ),
            (
                SNAPSHOT,
                "volumesnapshotcontents",
                "get list watch update patch",
            ),
            (SNAPSHOT, "volumesnapshotcontents/status", "update patch"),
            (GROUP_SNAPSHOT, "volumegroupsnapshotclasses", READ),
            (
                GROUP_SNAPSHOT,
                "volumegroupsnapshotcontents",
                "get list watch update patch",
            ),
            (
                GROUP_SNAPSHOT,
                "volumegroupsnapshotcontents/status",
                "update patch",
            ),
        ],
    }
}

/// Leader election, and for the built-in sidecar the journal of what it is about to make.
const LEASES: Rule = (
    "coordination.k8s.io",
    "leases",
    "get list watch create update delete",
);

/// Rules in the driver's own namespace.
pub(super) const fn namespace_rules(role: ControllerRole) -> &'static [Rule] {
    match role {
        ControllerRole::Provisioner => &[
            LEASES,
            (
                STORAGE,
                "csistoragecapacities",
                "get list watch create update patch delete",
            ),
            // The owner of capacity objects is found from the pod upwards.
            (CORE, "pods", "get"),
            ("apps", "replicasets", "get"),
        ],
        ControllerRole::Attacher | ControllerRole::Resizer | ControllerRole::Snapshotter => {
            &[LEASES]
        }
    }
}

/// In the whole cluster when secrets cannot be named.
pub(super) const ANY_SECRET: Rule = (CORE, "secrets", "get");

const WRITE: &str = "get list watch create update patch delete";
const RBAC: &str = "rbac.authorization.k8s.io";
const INSTANCES: &str = "csidriver.storage.openshift.io";

/// What the operator itself does.
const OPERATOR: [Rule; 21] = [
    (
        INSTANCES,
        "csidriverdeployments",
        "get list watch update patch",
    ),
    (INSTANCES, "csidriverdeployments/status", "get update patch"),
    (CORE, "serviceaccounts", WRITE),
    (CORE, "services", WRITE),
    (CORE, "events", "list watch create patch"),
    (CORE, "namespaces", READ),
    (CORE, "persistentvolumes", READ),
    (CORE, "pods", READ),
    (RBAC, "clusterroles", WRITE),
    (RBAC, "clusterrolebindings", WRITE),
    (RBAC, "roles", WRITE),
    (RBAC, "rolebindings", WRITE),
    (STORAGE, "csidrivers", WRITE),
    (STORAGE, "storageclasses", WRITE),
    (STORAGE, "volumeattributesclasses", WRITE),
    (SNAPSHOT, "volumesnapshotclasses", WRITE),
    (GROUP_SNAPSHOT, "volumegroupsnapshotclasses", WRITE),
    ("monitoring.coreos.com", "servicemonitors", WRITE),
    ("apps", "daemonsets", WRITE),
    ("apps", "deployments", WRITE),
    ("policy", "poddisruptionbudgets", WRITE),
];

/// What the operator must be allowed: what it does itself, and every rule that a driver may be given, because an
/// account cannot grant what it does not have. It never has `escalate` or `bind`. Secrets are not among them: the operator
/// gets rights to them where somebody grants them.
pub fn operator_rules() -> Vec<Value> {
    let tables = ControllerRole::ALL
        .into_iter()
        .flat_map(|role| [cluster_rules(role), namespace_rules(role)]);
    let mut rules = merged(tables.flatten().chain(&OPERATOR));
    rules.push(privileged_pods());
    rules
}

/// What the operator must be allowed to look at before it can decide anything.
pub(crate) fn rights_to_look() -> impl Iterator<Item = Right> {
    OPERATOR.iter().flat_map(|(group, resource, verbs)| {
        let verbs = verbs
            .split(' ')
            .filter(|verb| matches!(*verb, "list" | "watch"));
        verbs.map(|verb| Right {
            group,
            resource,
            verb,
        })
    })
}

/// What the account of a controller needs when a template names one of its own: in the whole cluster, and in the
/// driver's namespace. Secrets come on top.
pub fn controller_rules() -> [Vec<Value>; 2] {
    let of = |rules: fn(ControllerRole) -> &'static [Rule]| {
        merged(ControllerRole::ALL.into_iter().flat_map(rules))
    };
    [of(cluster_rules), of(namespace_rules)]
}

/// One rule for each resource, with the verbs of all.
pub(crate) fn merged<'a>(rules: impl Iterator<Item = &'a Rule>) -> Vec<Value> {
    let mut verbs: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (group, resource, allowed) in rules {
        let known = verbs.entry((group, resource)).or_default();
        for verb in allowed.split(' ') {
            if !known.contains(&verb) {
                known.push(verb);
            }
        }
    }
    verbs
        .into_iter()
        .map(|((group, resource), verbs)| {
            json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
        })
        .collect()
}

/// On OpenShift, what an account needs whose pods are privileged.
pub(super) fn privileged_pods() -> Value {
    json!({
        "apiGroups": ["security.openshift.io"],
        "resources": ["securitycontextconstraints"],
        "resourceNames": ["privileged"],
        "verbs": ["use"],
    })
}
