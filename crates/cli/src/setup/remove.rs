//! The end of a release: its instances go while the operator is still there to clean up after them.

use std::time::Duration;

use anyhow::bail;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Resource, ResourceExt};
use stowage_api::driver_deployment::{CSIDriverDeployment, IN_USE};
use stowage_api::weka::{WekaClient, WekaContainer};
use stowage_kubernetes::answer::Answer;
use tokio::time::Instant;

use super::instances::{belongs, delete};
use super::{say, title};
use crate::args::{NamedIn, RemoveArgs};
use crate::cluster::{Cluster, trouble};

const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Pods that were just deleted are gone by then, and their volumes are detached.
const HELD_FOR_GOOD: Duration = Duration::from_secs(15);
/// How many of several are named.
const NAMED: usize = 3;

/// Deletes the instances of a release, and waits until they are gone. Called twice: the second one waits for what the first one
/// deleted.
pub async fn run(cluster: &Cluster, args: &RemoveArgs) -> anyhow::Result<()> {
    if args.operator {
        refuse_if_needed(cluster, &args.release).await?;
    }
    let end = Instant::now() + args.timeout;
    let mut told = false;
    let mut held_since = None;
    loop {
        let left = of_release(cluster, &args.release).await?;
        if left.is_empty() {
            return say("No CSIDriverDeployment of this release is left.");
        }
        for instance in left
            .iter()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
        {
            delete(cluster, instance).await?;
            say(&format!("{}: deleted", title(instance)))?;
        }
        held_since = left
            .iter()
            .all(is_held)
            .then(|| held_since.unwrap_or_else(Instant::now));
        // What is in use stays so until somebody does something about it.
        let is_hopeless = held_since.is_some_and(|since: Instant| since.elapsed() >= HELD_FOR_GOOD);
        if is_hopeless || Instant::now() >= end {
            bail!(
                "not everything is gone, so the operator has to stay for now: {}; then uninstall again",
                reasons(&left)
            );
        }
        if !told {
            say("Waiting until the operator has cleaned up.")?;
            told = true;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

async fn of_release(cluster: &Cluster, release: &NamedIn) -> anyhow::Result<Vec<DynamicObject>> {
    let all = listed::<CSIDriverDeployment>(cluster, "CSIDriverDeployments").await?;
    Ok(all.into_iter().filter(|it| belongs(it, release)).collect())
}

/// Whether the operator says that volumes keep it.
fn is_held(instance: &DynamicObject) -> bool {
    let conditions = instance.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["reason"] == IN_USE)
}

/// What waits, and what the operator says about it.
fn reasons(left: &[DynamicObject]) -> String {
    let reason = |instance: &DynamicObject| {
        let message = instance.data["status"]["message"].as_str();
        let message = message.unwrap_or("no operator has looked at it");
        format!("{}: {message}", title(instance))
    };
    let reasons: Vec<_> = left.iter().map(reason).collect();
    reasons.join("; ")
}

/// Others would wait for this operator for ever.
async fn refuse_if_needed(cluster: &Cluster, release: &NamedIn) -> anyhow::Result<()> {
    let drivers = listed::<CSIDriverDeployment>(cluster, "CSIDriverDeployments").await?;
    let drivers = drivers.iter().filter(|it| !belongs(it, release)).map(title);
    let clients = listed::<WekaClient>(cluster, "WekaClients").await?;
    let clients = clients.iter().map(|it| of_kind("WekaClient", it));
    let containers = listed::<WekaContainer>(cluster, "WekaContainers").await?;
    let containers = containers
        .iter()
        .filter(|it| it.metadata.finalizers.is_some())
        .map(|it| of_kind("WekaContainer", it));
    let others: Vec<_> = drivers.chain(clients).chain(containers).collect();
    if others.is_empty() {
        return Ok(());
    }
    let named = others.iter().take(NAMED).cloned().collect::<Vec<_>>();
    bail!(
        "{} resources need the operator of this release: {}{}; delete them first, or let them go on without an operator with \
         `stowage operator --prepare-uninstall` after its Deployment was deleted",
        others.len(),
        named.join(", "),
        if others.len() > NAMED { ", ..." } else { "" }
    )
}

fn of_kind(kind: &str, object: &impl ResourceExt) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{kind} {namespace}/{}", object.name_any())
}

/// All of a kind, as they are stored; none where the cluster does not know it.
async fn listed<K: Resource<DynamicType = ()>>(
    cluster: &Cluster,
    what: &str,
) -> anyhow::Result<Vec<DynamicObject>> {
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource);
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(error) if matches!(Answer::of(&error), Answer::NotServed) => Ok(Vec::new()),
        Err(error) => Err(trouble::request(cluster, &format!("list {what}"), &error)),
    }
}
