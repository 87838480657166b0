//! Accounts and what they may do: exactly what the chosen sidecars need.
//!
//! The rules of each role are one table. They are those of the Kubernetes project's sidecars, which the built-in
//! sidecar keeps to, so that a driver can change from one to the other and back.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::object::{Kind, Object};
use super::valid::{ControllerRole, SecretAccess, SecretNames, Sidecars, ValidDriver};
use super::{metadata_labels, object};

const CORE: &str = "";
const STORAGE: &str = "storage.k8s.io";
const SNAPSHOT: &str = "snapshot.storage.k8s.io";
const GROUP_SNAPSHOT: &str = "groupsnapshot.storage.k8s.io";

/// One group and resource, and verbs in the order in which they are written.
type Rule = (&'static str, &'static str, &'static str);

const READ: &str = "get list watch";
const EVENTS: Rule = (CORE, "events", "list watch create update patch");

/// Rules in the whole cluster.
const fn cluster_rules(role: ControllerRole) -> &'static [Rule] {
    match role {
        ControllerRole::Provisioner => &[
            (
                CORE,
                "persistentvolumes",
                "get list watch create patch delete",
            ),
            (CORE, "persistentvolumeclaims", "get list watch update"),
            (CORE, "nodes", READ),
            EVENTS,
            (STORAGE, "storageclasses", READ),
            (STORAGE, "csinodes", READ),
            (STORAGE, "volumeattachments", READ),
            (STORAGE, "volumeattributesclasses", "get"),
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
const fn namespace_rules(role: ControllerRole) -> &'static [Rule] {
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
const ANY_SECRET: Rule = (CORE, "secrets", "get");

const WRITE: &str = "get list watch create update patch delete";
const RBAC: &str = "rbac.authorization.k8s.io";
const INSTANCES: &str = "csidriver.storage.openshift.io";

/// What the operator itself does.
const OPERATOR: [Rule; 17] = [
    (
        INSTANCES,
        "csidriverdeployments",
        "get list watch update patch",
    ),
    (INSTANCES, "csidriverdeployments/status", "get update patch"),
    (CORE, "serviceaccounts", WRITE),
    (CORE, "events", "list create"),
    (CORE, "namespaces", READ),
    (CORE, "persistentvolumes", READ),
    (CORE, "pods", READ),
    (RBAC, "clusterroles", WRITE),
    (RBAC, "clusterrolebindings", WRITE),
    (RBAC, "roles", WRITE),
    (RBAC, "rolebindings", WRITE),
    (STORAGE, "csidrivers", WRITE),
    (STORAGE, "storageclasses", WRITE),
    (SNAPSHOT, "volumesnapshotclasses", WRITE),
    ("apps", "daemonsets", WRITE),
    ("apps", "deployments", WRITE),
    ("policy", "poddisruptionbudgets", WRITE),
];

/// What the operator must be allowed: what it does itself, and every rule that a driver may be given, because nobody
/// can grant what he has not. It never has `escalate` or `bind`.
pub fn operator_rules() -> Vec<Value> {
    let tables = ControllerRole::ALL
        .into_iter()
        .flat_map(|role| [cluster_rules(role), namespace_rules(role)]);
    let given = tables.flatten().chain([&ANY_SECRET]);
    merged(given.chain(&OPERATOR))
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
fn merged<'a>(rules: impl Iterator<Item = &'a Rule>) -> Vec<Value> {
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

/// What the sidecars of this driver do for the cluster.
fn roles(driver: &ValidDriver) -> Vec<ControllerRole> {
    match &driver.sidecars {
        Sidecars::Builtin(builtin) if builtin.node_deployment || driver.controller.is_some() => {
            ControllerRole::ALL.into()
        }
        Sidecars::Builtin(_) => Vec::new(),
        Sidecars::Upstream(_) if driver.controller.is_none() => Vec::new(),
        Sidecars::Upstream(upstream) => {
            upstream.controllers.iter().map(|(role, _)| *role).collect()
        }
    }
}

/// Accounts of pods whose template names none, and the rights of those that talk to the API server.
pub(super) fn build(driver: &ValidDriver, secrets: &SecretNames) -> Vec<Object> {
    let roles = roles(driver);
    let mut objects = Vec::new();
    let names = &driver.names;
    let accounts = accounts(driver);
    for account in &accounts {
        objects.push(service_account(driver, account));
    }
    if roles.is_empty() || !accounts.contains(&names.controller_account) {
        return objects;
    }
    let cluster = roles.iter().flat_map(|role| cluster_rules(*role));
    let any_secret = (driver.secret_access == SecretAccess::Cluster).then_some(&ANY_SECRET);
    let cluster = merged(cluster.chain(any_secret));
    objects.extend(granted(driver, None, &names.cluster_role, &cluster));

    let own = Some(driver.owner.namespace.as_str());
    let local = roles.iter().flat_map(|role| namespace_rules(*role));
    objects.extend(granted(driver, own, &names.role, &merged(local)));

    if driver.secret_access == SecretAccess::Named {
        for (namespace, secrets) in secrets.iter() {
            let rule = json!({
                "apiGroups": [CORE], "resources": ["secrets"], "resourceNames": secrets, "verbs": ["get"],
            });
            let name = format!("{}-secrets", names.cluster_role);
            objects.extend(granted(driver, Some(namespace), &name, &[rule]));
        }
    }
    objects
}

/// The accounts that pods use and no template names.
fn accounts(driver: &ValidDriver) -> Vec<String> {
    let mut accounts = Vec::new();
    let controller = driver
        .controller
        .iter()
        .map(|it| (&it.template, driver.controller_account()));
    let nodes = driver
        .node_workloads
        .iter()
        .map(|it| (&it.template, driver.node_account()));
    for (template, account) in controller.chain(nodes) {
        if template.service_account().is_none() && !accounts.iter().any(|known| known == account) {
            accounts.push(account.to_owned());
        }
    }
    accounts
}

impl ValidDriver {
    /// The account of controller pods.
    pub(super) fn controller_account(&self) -> &str {
        &self.names.controller_account
    }

    /// The account of node pods: one without rights, unless their sidecars do the controller's work.
    pub(super) fn node_account(&self) -> &str {
        match &self.sidecars {
            Sidecars::Builtin(builtin) if builtin.node_deployment => &self.names.controller_account,
            _ => &self.names.node_account,
        }
    }
}

fn service_account(driver: &ValidDriver, name: &str) -> Object {
    let mut body = Map::new();
    if !driver.pull_secrets.is_empty() {
        let secrets: Vec<_> = driver
            .pull_secrets
            .iter()
            .map(|name| json!({"name": name}))
            .collect();
        body.insert("imagePullSecrets".to_owned(), secrets.into());
    }
    Object {
        kind: Kind::ServiceAccount,
        namespace: Some(driver.owner.namespace.clone()),
        name: name.to_owned(),
        labels: metadata_labels(&driver.owner),
        annotations: BTreeMap::new(),
        body,
    }
}

/// A role with these rules, and the controller's account bound to it.
fn granted(
    driver: &ValidDriver,
    namespace: Option<&str>,
    name: &str,
    rules: &[Value],
) -> [Object; 2] {
    let (role, binding) = match namespace {
        Some(_) => (Kind::Role, Kind::RoleBinding),
        None => (Kind::ClusterRole, Kind::ClusterRoleBinding),
    };
    let subject = json!({
        "kind": "ServiceAccount", "name": driver.names.controller_account, "namespace": driver.owner.namespace,
    });
    let reference = json!({"apiGroup": role.group(), "kind": role.name(), "name": name});
    let object = |kind, fields: Value| Object {
        namespace: namespace.map(str::to_owned),
        ..object(&driver.owner, kind, name, fields)
    };
    [
        object(role, json!({"rules": rules})),
        object(
            binding,
            json!({"roleRef": reference, "subjects": [subject]}),
        ),
    ]
}
