//! The objects of a driver that clients share: CSIDriver, storage classes, accounts and the controller.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use stowage_kubernetes::queue::Verdict;

use super::context::{Context, verdict};
use super::names::Names;
use super::plan::{DriverPlan, title};
use super::problem::Problem;
use super::render;
use crate::config::OperatorConfig;
use crate::driver::{Facts, Kind, Object, PodFacts};
use crate::mounts::KeyError;
use crate::writer::{Change, Key, Objects, Recorded, Skipped, WriteError};

/// What came of the last look at a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What is not as it should be.
    pub problems: Vec<Problem>,
    /// Whether node pods may run: the name of the driver is ours.
    pub is_usable: bool,
    /// The Deployment of the controller, `namespace/name`.
    pub controller: String,
    /// The storage classes.
    pub storage_classes: Vec<String>,
    /// A hash over everything that was rendered.
    pub config_hash: String,
    /// Whether node pods can be asked what is mounted.
    pub asking: Asking,
    /// Whether the account of node pods is somebody else's: no new ones run as it.
    pub is_node_account_foreign: bool,
}

/// Whether node pods can be asked what is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// It is not known yet: node pods stay as they are.
    #[default]
    Unknown,
    /// No: other projects' sidecars do not tell, or the operator may not keep a key.
    Impossible,
    /// By who has the key of this SHA-256.
    With(String),
}

impl Asking {
    /// What node pods are given of the key.
    pub fn key_hash(&self) -> Option<&str> {
        match self {
            Self::With(hash) => Some(hash),
            Self::Unknown | Self::Impossible => None,
        }
    }
}

/// Brings the objects of a driver to what all clients together want. Called twice: the second time sends nothing.
pub async fn reconcile(driver: &str, context: &Context) -> Verdict {
    let plan = context.plan();
    let live = context.children.of(driver);
    let problems = match plan.drivers.get(driver) {
        Some(wanted) => {
            let outcome = deploy(wanted, live, context).await;
            let problems = outcome.problems.clone();
            publish(wanted, &outcome, context);
            problems
        }
        // Nobody knows what a client wants that cannot be read, or whose cluster is not there.
        None if plan.held.contains(driver) => Vec::new(),
        None => {
            context.outcomes.lock().remove(driver);
            let problems = remove(&live, &BTreeSet::new(), context).await;
            // Those that wait for it to go may go.
            context.look_at_clients();
            problems
        }
    };
    verdict(&problems)
}

/// Tells everybody who shares the driver what came of it, if that is news.
fn publish(plan: &DriverPlan, outcome: &Outcome, context: &Context) {
    let driver = plan.names.driver.clone();
    let before = context.outcomes.lock().insert(driver, outcome.clone());
    if before.as_ref() == Some(outcome) {
        return;
    }
    for client in &plan.clients {
        context.queues.clients.add(title(client.as_ref()));
        let uid = client.uid().unwrap_or_default();
        for container in context.cluster.containers_of(&uid) {
            context.queues.containers.add(title(&container.raw));
        }
    }
}

async fn deploy(plan: &DriverPlan, live: Objects, context: &Context) -> Outcome {
    let config = context.config.borrow().clone();
    let wanted = render::objects(plan, &config, &facts(plan, context));
    let mut outcome = Outcome {
        is_usable: true,
        config_hash: render::hash(&wanted),
        ..Outcome::default()
    };
    match asking(&plan.names.driver, &config, context).await {
        Ok(asking) => outcome.asking = asking,
        Err(error) => outcome.problems.push(Problem::from(error)),
    }
    let mut skipped = Skipped::default();
    for object in &wanted {
        if skipped.has(object) {
            continue;
        }
        let key = Key::of_wanted(object);
        match write(object, live.get(&key), context).await {
            Ok(change) => note(plan, &key, change),
            Err(error) => {
                skipped.after(object, &error);
                // A driver of this name that is somebody else's: our node pods would take its place on nodes.
                if object.kind == Kind::CsiDriver {
                    outcome.is_usable = false;
                }
                outcome.problems.push(Problem::from(error));
            }
        }
        match object.kind {
            Kind::Deployment => {
                outcome.controller = format!("{}/{}", key.namespace.unwrap_or_default(), key.name);
            }
            Kind::StorageClass => outcome.storage_classes.push(key.name),
            _ => {}
        }
    }
    outcome.is_node_account_foreign = skipped.is_foreign(&plan.names.node_account);
    let kept = wanted.iter().filter(|it| skipped.keeps(it));
    let keys = kept.map(Key::of_wanted).collect();
    outcome.problems.extend(remove(&live, &keys, context).await);
    outcome
}

async fn asking(
    driver: &str,
    config: &OperatorConfig,
    context: &Context,
) -> Result<Asking, KeyError> {
    if config.csi.has_upstream_sidecars() {
        return Ok(Asking::Impossible);
    }
    let key = context.mounts.key_of(&Names::owner_uid(driver)).await?;
    Ok(key.map_or(Asking::Impossible, |key| Asking::With(key.hash())))
}

/// The secrets to grant: those that classes and volumes name, and that of our own classes where its namespace exists.
fn facts(plan: &DriverPlan, context: &Context) -> Facts {
    let mut secrets = context.facts.secrets_of(&plan.names.driver).named;
    let (namespace, name) = &plan.secret;
    if context.facts.has_namespace(namespace) {
        secrets.insert(namespace, name);
    }
    Facts {
        secrets,
        versions: context.writer.versions(),
        has_security_constraints: context.writer.has_security_constraints(),
        pods: PodFacts::default(),
    }
}

async fn write(
    object: &Object,
    live: Option<&DynamicObject>,
    context: &Context,
) -> Result<Change, WriteError> {
    let nothing = Recorded::default();
    let written = context.writer.write(object, live, &nothing).await;
    match (written, live) {
        // Nothing but names refers to what has immutable fields.
        (Err(WriteError::Immutable { .. }), Some(live)) => {
            Ok(context.writer.recreate(object, live).await?.1)
        }
        (written, _) => Ok(written?.1),
    }
}

/// Deletes what is there and not wanted; what could not be deleted, and why. Called twice: what is gone stays gone.
async fn remove(live: &Objects, wanted: &BTreeSet<Key>, context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Pods first: they should not lose their rights while they still work.
    for (key, object) in live.iter().rev().filter(|(key, _)| !wanted.contains(key)) {
        if object.metadata.deletion_timestamp.is_some() {
            continue;
        }
        match context.writer.delete(key, object).await {
            Ok(()) => tracing::info!(object = %key, "An object of a CSI driver was deleted."),
            Err(error) => problems.push(Problem::from(error)),
        }
    }
    problems
}

fn note(plan: &DriverPlan, key: &Key, change: Change) {
    if change != Change::None {
        let owner = plan.owner().name_any();
        tracing::info!(object = %key, ?change, owner, "An object of a CSI driver was written.");
    }
}
