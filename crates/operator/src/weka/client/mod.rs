//! A WekaClient: its containers, and what is told about it and its driver.
//!
//! A reconcile is `fetch -> decide -> apply -> status`, or `cleanup` for a client that is being deleted.

mod containers;
mod status;
mod unreadable;

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use kube::{Resource as _, ResourceExt as _};
use stowage_api::weka::WekaClient;
use stowage_kubernetes::queue::Verdict;

use self::containers::{Step, Wish};
use super::cluster::Kept;
use super::context::{Context, verdict};
use super::object::{ensure_finalizer, has_finalizer, release};
use super::plan::{Claim, Plan};
use super::problem::{Problem, Reason};
use crate::writer::{Change, Key, Recorded};

/// How many containers are written at a time.
const AT_ONCE: usize = 32;

/// Brings the containers of a client to what it describes, and its status to what they look like.
/// Called twice: the second time sends nothing.
pub async fn reconcile(name: &str, context: &Context) -> Verdict {
    let Some(kept) = context.cluster.client(name) else {
        return Verdict::Done;
    };
    let client = match &kept.object {
        Ok(client) => Arc::clone(client),
        Err(error) => {
            tracing::warn!(client = name, error, "A WekaClient cannot be read.");
            let told = unreadable::tell(&kept, error, context).await;
            return told.map_or_else(|problem| verdict(&[problem]), |()| Verdict::Done);
        }
    };
    let mut problems = match client.meta().deletion_timestamp {
        Some(_) => cleanup(&client, context).await,
        None => sync(&kept, &client, context).await,
    };
    problems.extend(status::write(&client, &problems, context).await.err());
    verdict(&problems)
}

/// All stages but the last; what went wrong.
async fn sync(kept: &Kept<WekaClient>, client: &WekaClient, context: &Context) -> Vec<Problem> {
    if let Some(problem) = invalid(client) {
        return vec![problem];
    }
    match ensure_finalizer(client, context).await {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(problem) => return vec![problem],
    }
    let Some(driver) = driver_for_containers(client, &context.plan(), context) else {
        // It is looked at now, and tells this client: one write for each container, not two.
        return Vec::new();
    };
    let uid = kept.raw.uid().unwrap_or_default();
    let nodes = context.cluster.all_nodes();
    let nodes: Vec<_> = nodes.iter().map(|node| &node.0).collect();
    let wish = Wish {
        client,
        nodes: &nodes,
        driver: &driver,
        join: &context.cluster.addresses_for(client),
    };
    let there = context.cluster.containers_of(&uid);
    apply(containers::steps(&wish, &there), client, context).await
}

/// What is wrong with a client before anything else is looked at.
fn invalid(client: &WekaClient) -> Option<Problem> {
    let image = &client.spec.image;
    let version = image.rsplit('/').next()?.split_once(':').map(|it| it.1);
    let parts: Vec<&str> = version.unwrap_or_default().splitn(3, '.').collect();
    let is_number = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
    let is_version = parts.len() == 3 && parts.iter().all(is_number);
    (!is_version).then(|| {
        let message = format!(
            "`spec.image`: `{image}` does not end in the version of Weka: use one such as \
             `quay.io/weka.io/weka-in-container:4.4.5`"
        );
        Problem::new(Reason::Invalid, message)
    })
}

/// The driver that containers stand beside, empty for none: the one that is wanted, if its name is ours. `None`: nobody knows yet.
fn driver_for_containers(client: &WekaClient, plan: &Plan, context: &Context) -> Option<String> {
    let deployed = client.status.as_ref().and_then(|it| it.csi.as_ref());
    let deployed = deployed.map_or("", |it| it.driver_name.as_str());
    match plan.claim(client) {
        Claim::Nothing => Some(String::new()),
        Claim::Held(driver, _) => Some(driver.unwrap_or_default()),
        Claim::Driver(driver) => {
            let outcomes = context.outcomes.lock();
            let is_usable = outcomes.get(&driver).map(|it| it.is_usable);
            // Not looked at since the start: what there was is kept until then.
            let is_usable = is_usable.or((driver == deployed).then_some(true))?;
            Some(if is_usable { driver } else { String::new() })
        }
    }
}

/// Makes, changes and deletes containers; what went wrong.
async fn apply(steps: Vec<Step>, client: &WekaClient, context: &Context) -> Vec<Problem> {
    let done = stream::iter(steps).map(|step| act(step, client, context));
    let done = done.buffer_unordered(AT_ONCE);
    done.filter_map(|result| async { result.err() })
        .collect()
        .await
}

async fn act(step: Step, client: &WekaClient, context: &Context) -> Result<(), Problem> {
    match step {
        Step::Write(wanted, live) => {
            let live = live.as_ref().map(|live| &live.raw);
            let nothing = Recorded::default();
            let (stored, change) = context.writer.write(&wanted, live, &nothing).await?;
            let key = Key::of_wanted(&wanted);
            match change {
                Change::None => return Ok(()),
                Change::Reverted => {
                    let message = format!("Restored after a change by somebody else: {key}");
                    let object = client.object_ref(&());
                    context.events.normal(object, "DriftReverted", message);
                }
                Change::Created | Change::Updated | Change::Recreated | Change::Adopted => {}
            }
            tracing::info!(object = %key, uid = stored.uid(), ?change, "A WekaContainer was written.");
        }
        Step::Delete(live) => {
            let key = Key::of(crate::driver::Kind::WekaContainer, &live.raw);
            context.writer.delete(&key, &live.raw).await?;
            tracing::info!(object = %key, "A WekaContainer was deleted.");
        }
    }
    Ok(())
}

/// Lets the containers go, then the driver, then the client. Called twice: what is gone stays gone.
async fn cleanup(client: &WekaClient, context: &Context) -> Vec<Problem> {
    if !has_finalizer(client) {
        return Vec::new();
    }
    let uid = client.uid().unwrap_or_default();
    let there = context.cluster.containers_of(&uid);
    if !there.is_empty() {
        return apply(containers::farewell(&there), client, context).await;
    }
    if has_driver_left(client, context) {
        context.look_at_drivers();
        return Vec::new();
    }
    release(client, context).await.err().into_iter().collect()
}

/// Whether objects of a driver are left that nobody else wants.
fn has_driver_left(client: &WekaClient, context: &Context) -> bool {
    let status = client.status.as_ref().and_then(|it| it.csi.as_ref());
    let Some(driver) = status.map(|it| it.driver_name.as_str()) else {
        return false;
    };
    let plan = context.plan();
    let is_wanted = plan.drivers.contains_key(driver) || plan.held.contains(driver);
    !is_wanted && !context.children.of(driver).is_empty()
}
