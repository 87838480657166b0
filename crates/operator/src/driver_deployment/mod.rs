//! `CSIDriverDeployment`: one driver from one resource.
//!
//! A reconcile is `fetch -> validate -> build -> apply -> status`, or `cleanup` for an instance that is being deleted:
//! one file each. Building is [`crate::driver::build`].

mod apply;
mod cleanup;
mod context;
mod event;
mod fetch;
pub mod image;
mod observe;
mod problem;
mod run;
pub mod status;
pub mod validate;

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::core::{DeserializeGuard, Resource};
use kube::runtime::controller::Action;
use kube::{Api, Error};
use stowage_api::driver_deployment::{
    CSIDriverDeployment, CSIDriverDeploymentStatus, ConditionStatus,
};
use stowage_kubernetes::answer::{self, Answer};

use crate::driver::{self, Facts};
use apply::Applied;
pub use context::{Context, Guarded, Operator};
pub use event::COMPONENT as EVENT_COMPONENT;
use fetch::Fetched;
use problem::Problem;
pub use run::run;
use status::{Finding, Reason};
use validate::{ManagementState, management_state, validate};

/// Brings the cluster to what one instance describes, and its status to what the cluster looks like.
///
/// Never fails: whatever goes wrong ends in the instance's conditions and is tried again.
/// Called twice: the second time sends nothing.
pub async fn reconcile(
    instance: Arc<Guarded>,
    context: Arc<Context>,
) -> Result<Action, std::convert::Infallible> {
    let started = Instant::now();
    let outcome = match &instance.0 {
        Ok(instance) => reconcile_readable(instance, &context).await,
        Err(invalid) => reconcile_unreadable(&instance, &invalid.error, &context).await,
    };
    context
        .metrics
        .reconciled(started.elapsed(), outcome.is_ok());
    let uid = instance.uid().unwrap_or_default();
    let action = match outcome {
        Ok(Next::Rest) => {
            context.forget_failures(&uid);
            Action::await_change()
        }
        Ok(Next::Retry) => Action::requeue(context.count_failure(&uid)),
        // Somebody else wrote at the same time, or our own write is still on its way to us.
        Err(error) if Answer::of(&error) == Answer::Conflict => {
            Action::requeue(context.count_failure(&uid))
        }
        Err(error) => {
            let pause = context.count_failure(&uid);
            let (name, namespace) = (instance.name_any(), instance.namespace());
            let error = answer::chain(&error);
            tracing::warn!(name, namespace, error, retry_in = ?pause, "An instance could not be synced.");
            Action::requeue(pause)
        }
    };
    Ok(action)
}

/// What comes after a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing, until something changes.
    Rest,
    /// The same again, a little later.
    Retry,
}

async fn reconcile_readable(
    instance: &CSIDriverDeployment,
    context: &Context,
) -> Result<Next, Error> {
    if instance.meta().deletion_timestamp.is_some() {
        return cleanup::cleanup(instance, management_state(&instance.spec), context).await;
    }
    if management_state(&instance.spec) == ManagementState::Unmanaged {
        return leave_alone(instance, context).await;
    }
    // fetch
    let fetched = match fetch::fetch(instance, context).await {
        Ok(fetched) => fetched,
        Err(problem) => return note(instance, context, vec![problem]).await,
    };
    // validate
    let driver = match validate(instance, &fetched.config, fetched.ports) {
        Ok(driver) => driver,
        Err(errors) => {
            let problems = errors.iter().map(Problem::invalid).collect();
            return report(instance, context, &fetched, problems).await;
        }
    };
    if let Some(rival) = &fetched.rival {
        let problem = Problem::claimed(&driver.driver_name, rival);
        return report(instance, context, &fetched, vec![problem]).await;
    }
    if !cleanup::ensure_finalizer(instance, context).await? {
        return Ok(Next::Rest);
    }
    // build
    let facts = Facts {
        secrets: fetched.secrets_with(&driver, context),
        has_snapshots: fetched.has_snapshots,
        has_security_constraints: context.writer.has_security_constraints(),
    };
    let objects = driver::build(&driver, &facts);
    // apply
    let live = fetched.objects.clone();
    let mut applied = apply::apply(instance, &driver, &objects, live, context).await;
    // What could be done is done, but what others change is no longer seen.
    applied
        .problems
        .extend(Problem::missing_rights(&context.rights));
    // status
    let warnings = problem::warnings(&driver, &fetched);
    finish(instance, context, &fetched, applied, warnings).await
}

/// An instance that was stored with another definition than ours. Its metadata can be read in any case.
async fn reconcile_unreadable(
    instance: &Guarded,
    error: &str,
    context: &Context,
) -> Result<Next, Error> {
    let name = instance.name_any();
    let api = context.stored_instances(instance.namespace());
    let Some(raw) = api.get_opt(&name).await? else {
        return Ok(Next::Rest);
    };
    let before = serde_json::from_value(raw.data["status"].clone()).unwrap_or_default();
    let mut stand_in = CSIDriverDeployment::new(
        &name,
        stowage_api::driver_deployment::CSIDriverDeploymentSpec::default(),
    );
    stand_in.metadata = raw.metadata;
    stand_in.status = Some(before);
    if stand_in.metadata.deletion_timestamp.is_some() {
        return cleanup::cleanup(&stand_in, ManagementState::Managed, context).await;
    }
    note(&stand_in, context, vec![Problem::unreadable(error)]).await
}

/// An unmanaged instance: only its state is told.
async fn leave_alone(instance: &CSIDriverDeployment, context: &Context) -> Result<Next, Error> {
    let before = instance.status.clone().unwrap_or_default();
    let after = CSIDriverDeploymentStatus {
        state: Some("Unmanaged".to_owned()),
        ..before.clone()
    };
    status::write(instance, context, &after).await?;
    Ok(Next::Rest)
}

/// Nothing was seen, because of these problems: whatever else the status says stays.
async fn note(
    instance: &CSIDriverDeployment,
    context: &Context,
    problems: Vec<Problem>,
) -> Result<Next, Error> {
    let before = instance.status.clone().unwrap_or_default();
    let finding = problem::sync_finding(&problems, &[]);
    let after = status::with_finding(&before, finding, instance.meta().generation);
    let applied = Applied {
        problems,
        ..Applied::default()
    };
    let known = before.conditions.as_deref().unwrap_or_default();
    event::tell(context, instance, &applied, known);
    status::write(instance, context, &after).await?;
    Ok(applied.next())
}

/// Says on every instance why nothing is done, while the operator may not see what it must know. Never ends.
async fn complain_while_blind(context: &Context) {
    let mut changes = std::pin::pin!(context.rights.changes());
    loop {
        if let Some(problem) = Problem::missing_rights(&context.rights)
            && let Err(error) = note_on_all(context, &problem).await
        {
            let error = answer::chain(&error);
            tracing::warn!(error, "Instances could not be told which right is missing.");
        }
        if changes.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

async fn note_on_all(context: &Context, problem: &Problem) -> Result<(), Error> {
    let instances = Api::<Guarded>::all(context.client.clone());
    for instance in instances.list(&ListParams::default()).await? {
        let Ok(instance) = instance.0 else { continue };
        if management_state(&instance.spec) == ManagementState::Managed {
            note(&instance, context, vec![problem.clone()]).await?;
        }
    }
    Ok(())
}

/// Nothing was done, because of these problems.
async fn report(
    instance: &CSIDriverDeployment,
    context: &Context,
    fetched: &Fetched,
    problems: Vec<Problem>,
) -> Result<Next, Error> {
    let applied = Applied {
        objects: fetched.objects.clone(),
        problems,
        is_complete: false,
        ..Applied::default()
    };
    finish(instance, context, fetched, applied, Vec::new()).await
}

/// Tells what was done and what is seen.
async fn finish(
    instance: &CSIDriverDeployment,
    context: &Context,
    fetched: &Fetched,
    applied: Applied,
    warnings: Vec<Problem>,
) -> Result<Next, Error> {
    let before = instance.status.clone().unwrap_or_default();
    context.remember_objects(&instance.uid().unwrap_or_default(), &applied);
    // Somebody else wrote at the same time: that is no news, and the next attempt sees what they wrote.
    let conflicts = applied.problems.iter().any(|problem| problem.is_conflict);
    if conflicts && applied.problems.iter().all(|problem| problem.is_conflict) {
        event::tell(context, instance, &applied, &[]);
        return Ok(Next::Retry);
    }
    let driver = &instance.spec.driver_name;
    let observation = match apply::observe(instance, &applied, context).await {
        Err(error) if matches!(Answer::of(&error), Answer::Forbidden(_)) => {
            let mut problems = applied.problems;
            problems.push(Problem::unseen(&error));
            return note(instance, context, problems).await;
        }
        observed => observed?,
    };
    let deployed = !observation.daemon_sets.is_empty();
    let mut findings = vec![problem::sync_finding(&applied.problems, &warnings)];
    if deployed {
        findings.insert(0, observation.available(driver));
        findings.push(observation.progressing());
    } else {
        findings.insert(0, not_deployed());
    }
    let generation = instance.meta().generation;
    let is_synced = applied.problems.is_empty();
    let after = CSIDriverDeploymentStatus {
        observed_generation: if is_synced {
            generation
        } else {
            before.observed_generation
        },
        children: Some(applied.children()).filter(|children| !children.is_empty()),
        state: Some("Managed".to_owned()),
        nodes: deployed.then(|| observation.nodes()),
        message: Some(status::summary(&findings)),
        driver_name: if applied.is_complete {
            Some(driver.clone())
        } else {
            before.driver_name.clone()
        },
        first_port: fetched.first_port.map(i32::from),
        conditions: Some(status::conditions(
            before.conditions.as_deref(),
            findings,
            generation,
        )),
    };
    event::tell(
        context,
        instance,
        &applied,
        before.conditions.as_deref().unwrap_or_default(),
    );
    status::write(instance, context, &after).await?;
    context
        .metrics
        .observed(instance, &after, observation.node_counts());
    Ok(applied.next())
}

fn not_deployed() -> Finding {
    Finding {
        about: status::AVAILABLE,
        status: ConditionStatus::Unknown,
        reason: Reason::NotDeployed,
        message: "Nothing runs for this instance; the condition SyncSuccessful says why."
            .to_owned(),
    }
}

/// The type that is watched: one instance that cannot be read must not stop the watch of all.
pub(crate) type GuardedInstance = DeserializeGuard<CSIDriverDeployment>;
