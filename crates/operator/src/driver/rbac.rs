//! Accounts and what they may do: exactly what the chosen sidecars need.
//!
//! The rules of each role are one table. They are those of the Kubernetes project's sidecars, which the built-in
//! sidecar keeps to, so that a driver can change from one to the other and back.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::object::{Kind, Object};
use super::valid::{ControllerRole, SecretAccess, SecretNames, Sidecars, ValidDriver};
use super::{Facts, metadata_labels, object};
use crate::rights::Right;

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
    let mut rules = merged(given.chain(&OPERATOR));
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
pub(super) fn build(driver: &ValidDriver, facts: &Facts) -> Vec<Object> {
    let accounts = accounts(driver);
    let mut objects: Vec<_> = accounts
        .iter()
        .map(|account| service_account(driver, account))
        .collect();
    if facts.has_security_constraints {
        let privileged: Vec<_> = privileged_accounts(driver)
            .into_iter()
            .filter(|it| accounts.contains(it))
            .collect();
        let name = format!("{}-privileged", driver.names.cluster_role);
        objects.extend(granted(
            driver,
            None,
            &name,
            &[privileged_pods()],
            &privileged,
        ));
    }
    if accounts.contains(&driver.names.controller_account) {
        objects.extend(controller_rights(driver, &facts.secrets));
    }
    objects
}

/// What the sidecars of a controller need.
fn controller_rights(driver: &ValidDriver, secrets: &SecretNames) -> Vec<Object> {
    let (roles, names) = (roles(driver), &driver.names);
    let mut objects = Vec::new();
    if roles.is_empty() {
        return objects;
    }
    let account = std::slice::from_ref(&names.controller_account);
    let cluster = roles.iter().flat_map(|role| cluster_rules(*role));
    let any_secret = (driver.secret_access == SecretAccess::Cluster).then_some(&ANY_SECRET);
    let cluster = merged(cluster.chain(any_secret));
    objects.extend(granted(
        driver,
        None,
        &names.cluster_role,
        &cluster,
        account,
    ));

    let own = Some(driver.owner.namespace.as_str());
    let local = roles.iter().flat_map(|role| namespace_rules(*role));
    objects.extend(granted(driver, own, &names.role, &merged(local), account));

    if driver.secret_access == SecretAccess::Named {
        for (namespace, secrets) in secrets.iter() {
            let rule = json!({
                "apiGroups": [CORE], "resources": ["secrets"], "resourceNames": secrets, "verbs": ["get"],
            });
            let name = format!("{}-secrets", names.cluster_role);
            objects.extend(granted(driver, Some(namespace), &name, &[rule], account));
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
        if self.is_node_deployment() {
            &self.names.controller_account
        } else {
            &self.names.node_account
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

/// On OpenShift, what an account needs whose pods are privileged.
fn privileged_pods() -> Value {
    json!({
        "apiGroups": ["security.openshift.io"],
        "resources": ["securitycontextconstraints"],
        "resourceNames": ["privileged"],
        "verbs": ["use"],
    })
}

/// Accounts of pods that are privileged: those on nodes always are.
fn privileged_accounts(driver: &ValidDriver) -> Vec<String> {
    let mut accounts = vec![driver.node_account().to_owned()];
    let controller = driver.controller.as_ref().map(|it| it.template.driver());
    if controller.is_some_and(|it| it["securityContext"]["privileged"] == true) {
        accounts.push(driver.controller_account().to_owned());
    }
    accounts
}

/// A role with these rules, and accounts bound to it; nothing for nobody.
fn granted(
    driver: &ValidDriver,
    namespace: Option<&str>,
    name: &str,
    rules: &[Value],
    accounts: &[String],
) -> Vec<Object> {
    if accounts.is_empty() {
        return Vec::new();
    }
    let (role, binding) = match namespace {
        Some(_) => (Kind::Role, Kind::RoleBinding),
        None => (Kind::ClusterRole, Kind::ClusterRoleBinding),
    };
    let subject = |account: &String| {
        json!({
            "kind": "ServiceAccount", "name": account, "namespace": driver.owner.namespace,
        })
    };
    let subjects: Vec<_> = accounts.iter().map(subject).collect();
    let reference = json!({"apiGroup": role.group(), "kind": role.name(), "name": name});
    let object = |kind, fields: Value| Object {
        namespace: namespace.map(str::to_owned),
        ..object(&driver.owner, kind, name, fields)
    };
    vec![
        object(role, json!({"rules": rules})),
        object(binding, json!({"roleRef": reference, "subjects": subjects})),
    ]
}
