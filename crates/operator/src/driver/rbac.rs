//! Accounts and what they may do: exactly what the chosen sidecars need.
//!
//! The rules of each role are one table. They are those of the Kubernetes project's sidecars, which the built-in
//! sidecar keeps to, so that a driver can change from one to the other and back.

mod rules;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::rules::{ANY_SECRET, CORE, cluster_rules, namespace_rules, privileged_pods};
pub(crate) use self::rules::{Rule, merged, rights_to_look};
pub use self::rules::{controller_rules, operator_rules};
use super::object::{Kind, Object};
use super::valid::{ControllerRole, SecretAccess, SecretNames, Sidecars, ValidDriver};
use super::{Facts, metadata_labels, object};

/// How names of roles end that let sidecars read secrets.
pub(crate) const SECRETS_SUFFIX: &str = "-secrets";
/// In names of roles whose rules an instance asks for.
pub(crate) const EXTRA_RULES: &str = "-extra-";

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
pub(super) fn accounts_and_roles(driver: &ValidDriver, facts: &Facts) -> Vec<Object> {
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
    objects.extend(extra_rights(driver, &accounts));
    objects
}

/// Rules that the instance asks for, for accounts that are ours.
fn extra_rights(driver: &ValidDriver, accounts: &[String]) -> Vec<Object> {
    let extra = &driver.extra_rules;
    let own = Some(driver.owner.namespace.as_str());
    let pods = [
        ("controller", driver.controller_account(), &extra.controller),
        ("node", driver.node_account(), &extra.node),
    ];
    let mut objects = Vec::new();
    for (pods, account, rules) in pods {
        let accounts: Vec<_> = accounts
            .iter()
            .filter(|it| *it == account)
            .cloned()
            .collect();
        let name = format!("{}{EXTRA_RULES}{pods}", driver.names.cluster_role);
        for (namespace, rules) in [(None, &rules.cluster), (own, &rules.namespace)] {
            if !rules.is_empty() {
                objects.extend(granted(driver, namespace, &name, rules, &accounts));
            }
        }
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
            let name = format!("{}{SECRETS_SUFFIX}", names.cluster_role);
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

/// Accounts of pods that need more than any pod may have: those on nodes always do.
fn privileged_accounts(driver: &ValidDriver) -> Vec<String> {
    let mut accounts = vec![driver.node_account().to_owned()];
    let controller = driver.controller.as_ref();
    if controller.is_some_and(|it| it.template.needs_privileges()) {
        accounts.push(driver.controller_account().to_owned());
    }
    accounts
}

/// A role with these rules, and accounts bound to it; nothing where there is no account.
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
    let here = |kind, fields: Value| Object {
        namespace: namespace.map(str::to_owned),
        ..object(&driver.owner, kind, name, fields)
    };
    vec![
        here(role, json!({"rules": rules})),
        here(binding, json!({"roleRef": reference, "subjects": subjects})),
    ]
}
