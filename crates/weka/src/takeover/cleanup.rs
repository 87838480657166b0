//! Which objects the plugin leaves, and in which order they go. Volumes, classes, secrets, namespaces and mounts stay.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stowage_api::driver_deployment::ADOPT_ANNOTATION;

use super::facts::{Binding, Facts, OPERATOR, Workload};
use super::report::{Instance, Step};

const HELM_RELEASE: &str = "meta.helm.sh/release-name";
const HELM_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Roles with this label are Kubernetes' own.
const BOOTSTRAPPING: &str = "kubernetes.io/bootstrapping";

/// What is to be typed, in this order.
pub(super) fn steps(facts: &Facts, plugin: &[&Workload], instance: &Instance) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = |title, commands: Vec<String>| {
        if !commands.is_empty() {
            steps.push(Step { title, commands });
        }
    };
    let annotate = facts.csi_driver.as_ref().map(|_| {
        let driver = word(&facts.driver);
        format!("kubectl annotate csidriver {driver} --overwrite {ADOPT_ANNOTATION}={instance}")
    });
    step(
        "Hand the CSIDriver object over to the instance",
        annotate.into_iter().collect(),
    );
    let deletions_of_plugin = plugin.iter().map(|workload| {
        // In the foreground: kubectl waits until the pods are gone, and their rights last as long as they do.
        let delete = deletion(workload.kind.as_str(), &workload.metadata);
        format!("{delete} --cascade=foreground")
    });
    step(
        "Stop WEKA's plugin; what is mounted stays mounted",
        deletions_of_plugin.collect(),
    );
    let left = Leftovers::of(facts, plugin);
    step("Remove what it leaves", left.commands(facts));
    let account = format!("{}:{OPERATOR}", word(facts.operator_namespace()));
    let grant = secret_namespaces(facts, instance).into_iter().map(|namespace| {
        format!("kubectl create rolebinding csi-operator-secrets --clusterrole=csi-operator-secrets --serviceaccount={account} --namespace={namespace}")
    });
    step(
        "Let the operator grant the driver its secrets in other namespaces",
        grant.collect(),
    );
    step(
        "Start the instance",
        vec!["kubectl apply -f weka.yaml".to_owned()],
    );
    steps
}

/// The namespaces of secrets, but for the instance's own, for which the manifest has a binding.
fn secret_namespaces(facts: &Facts, instance: &Instance) -> BTreeSet<String> {
    let names = facts.secrets_named().into_iter();
    let namespaces = names.map(|name| name.namespace);
    namespaces
        .filter(|namespace| *namespace != instance.namespace)
        .collect()
}

/// What nobody needs without the plugin.
struct Leftovers<'a> {
    /// Namespace and name.
    accounts: BTreeSet<(&'a str, &'a str)>,
    bindings: Vec<&'a Binding>,
    /// Helm's releases: namespace and name.
    releases: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Leftovers<'a> {
    fn of(facts: &'a Facts, plugin: &[&'a Workload]) -> Self {
        let account = |workload: &'a Workload| (workload.namespace.as_str(), workload.account());
        let is_plugin = |workload: &Workload| plugin.iter().any(|it| std::ptr::eq(*it, workload));
        let others = facts.workloads.iter().filter(|it| !is_plugin(it));
        let of_others: BTreeSet<_> = others.map(account).collect();
        let accounts = plugin.iter().copied().map(account);
        let accounts: BTreeSet<_> = accounts
            .filter(|account| account.1 != "default" && !of_others.contains(account))
            .collect();
        let only_theirs = |binding: &&Binding| {
            let theirs = binding.subjects.iter().all(|subject| {
                let namespace = subject.namespace.as_deref().unwrap_or_default();
                let account = (namespace, subject.name.as_str());
                subject.kind == "ServiceAccount" && accounts.contains(&account)
            });
            theirs && !binding.subjects.is_empty()
        };
        let release = |workload: &&'a Workload| {
            let annotations = workload.metadata.annotations.as_ref()?;
            let namespace = annotations.get(HELM_NAMESPACE)?;
            Some((namespace.as_str(), annotations.get(HELM_RELEASE)?.as_str()))
        };
        Self {
            bindings: facts.bindings.iter().filter(only_theirs).collect(),
            releases: plugin.iter().filter_map(release).collect(),
            accounts,
        }
    }

    fn commands(&self, facts: &Facts) -> Vec<String> {
        let (cluster, local): (Vec<&Binding>, Vec<&Binding>) = self
            .bindings
            .iter()
            .partition(|it| it.metadata.namespace.is_none());
        let mut commands = Vec::new();
        let cluster = cluster.into_iter().map(|it| &it.metadata);
        commands.extend(deletions("ClusterRoleBinding", cluster));
        let local = local.into_iter().map(|it| &it.metadata);
        commands.extend(deletions("RoleBinding", local));
        let roles = facts.cluster_roles.iter();
        let roles = roles.filter(|role| self.is_free(facts, "ClusterRole", role));
        commands.extend(deletions("ClusterRole", roles));
        let roles = facts.roles.iter();
        let roles = roles.filter(|role| self.is_free(facts, "Role", role));
        commands.extend(deletions("Role", roles));
        let accounts = facts.accounts.iter().filter(|account| {
            let namespace = account.namespace.as_deref().unwrap_or_default();
            let name = account.name.as_deref().unwrap_or_default();
            self.accounts.contains(&(namespace, name))
        });
        commands.extend(deletions("ServiceAccount", accounts));
        let maps = facts.config_maps.iter();
        let maps = maps.filter(|map| self.is_of_release(map));
        commands.extend(deletions("ConfigMap", maps));
        commands
    }

    /// Whether only bindings that go refer to a role, and somebody made it for them.
    fn is_free(&self, facts: &Facts, kind: &str, role: &ObjectMeta) -> bool {
        let name = role.name.as_deref().unwrap_or_default();
        let refers = |binding: &Binding| {
            let here = kind == "ClusterRole" || binding.metadata.namespace == role.namespace;
            binding.role.kind == kind && binding.role.name == name && here
        };
        let goes = |binding: &Binding| self.bindings.iter().any(|it| std::ptr::eq(*it, binding));
        let mut referring = facts.bindings.iter().filter(|it| refers(it)).peekable();
        let labels = role.labels.as_ref();
        let is_system = labels.is_some_and(|labels| labels.contains_key(BOOTSTRAPPING));
        let is_used = referring.peek().is_some();
        is_used && !is_system && referring.all(goes)
    }

    fn is_of_release(&self, object: &ObjectMeta) -> bool {
        let annotations = object.annotations.as_ref();
        annotations.is_some_and(|annotations| {
            let release = annotations
                .get(HELM_NAMESPACE)
                .zip(annotations.get(HELM_RELEASE));
            release.is_some_and(|(namespace, name)| self.releases.contains(&(namespace, name)))
        })
    }
}

fn deletions<'a>(kind: &str, objects: impl Iterator<Item = &'a ObjectMeta>) -> Vec<String> {
    objects.map(|object| deletion(kind, object)).collect()
}

fn deletion(kind: &str, object: &ObjectMeta) -> String {
    let name = word(object.name.as_deref().unwrap_or_default());
    let namespace = object.namespace.as_ref();
    let namespace = namespace.map(|namespace| format!(" --namespace={namespace}"));
    format!(
        "kubectl delete {} {name}{}",
        kind.to_lowercase(),
        namespace.unwrap_or_default()
    )
}

/// A name as a shell reads it. Names of roles may have almost any character.
fn word(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}
