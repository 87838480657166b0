//! `CSIDriverDeployment`: one driver from one resource.
//!
//! A reconcile is `fetch -> validate -> build -> apply -> status`, or `cleanup` for an instance that is being deleted:
//! one file each. Building is [`crate::driver::build`]. Whatever happens on the way ends as one outcome, from which the
//! last stage makes everything that is seen: conditions, children, events, metrics, and when to look again.

mod apply;

mod cleanup;
mod condition;
mod context;
mod drain;
mod event;
mod fetch;
pub mod image;
mod missing_rights;
mod mounted;
mod observe;
mod outcome;
mod pods;
mod problem;
mod recreate;
mod restart;
mod rollouts;
mod run;
mod startup;
mod status;
mod taint;
mod triggers;
mod unreadable;
mod used;
pub mod validate;
mod warning;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use kube::ResourceExt;
use kube::core::Resource;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::Action;
use stowage_api::driver_deployment::{CSIDriverDeployment, CSIDriverDeploymentSpec};
use stowage_kubernetes::answer::{self, Answer};

use self::apply::Applied;
pub use self::context::{Clock, Context, Guarded, Operator};
use self::drain::Drained;
pub(crate) use self::drain::release_nodes;
pub use self::event::COMPONENT as EVENT_COMPONENT;
use self::fetch::Fetched;
use self::outcome::{Outcome, Synced};
use self::problem::Problem;
pub use self::run::run;
use self::validate::{ManagementState, management_state, validate};
use crate::driver::valid::Limit;
use crate::driver::{Facts, ValidDriver, build};

/// Brings the cluster to what one instance describes, and its status to what the cluster looks like.
///
/// Never fails: whatever goes wrong ends in the instance's conditions and is tried again.
/// Called twice: the second time sends nothing.
pub async fn reconcile(
    instance: Arc<Guarded>,
    context: Arc<Context>,
) -> Result<Action, Infallible> {
    let started = Instant::now();
    let action = match &instance.0 {
        Ok(instance) => {
            let outcome = outcome_of(instance, &context).await;
            status::conclude(instance, outcome, started, &context).await
        }
        Err(invalid) => {
            let (instance, outcome) = outcome_of_unreadable(invalid, &context).await;
            status::conclude(&instance, outcome, started, &context).await
        }
    };
    Ok(action)
}

async fn outcome_of(instance: &CSIDriverDeployment, context: &Context) -> Outcome {
    if instance.meta().deletion_timestamp.is_some() {
        return cleanup::cleanup(instance, context).await;
    }
    match management_state(&instance.spec) {
        ManagementState::Unmanaged => let_be(instance, context).await,
        ManagementState::Managed => match deploy(instance, context).await {
            Ok(synced) => Outcome::Synced(Box::new(synced)),
            Err(early) => {
                // It did not get as far as asking for its turn.
                let uid = instance.uid().unwrap_or_default();
                context.rollouts.step_aside(&uid);
                early
            }
        },
    }
}

/// Leaves everything as it is, and keeps no pods from nodes, new ones included, and no other drivers waiting for it.
async fn let_be(instance: &CSIDriverDeployment, context: &Context) -> Outcome {
    context.rollouts.end(&instance.uid().unwrap_or_default());
    let admitted = match startup::admit_meanwhile(instance, context).await {
        Err(error) if matches!(Answer::of(&error), Answer::Forbidden(_)) => {
            let (instance, error) = (problem::title(instance), answer::chain(&error));
            tracing::warn!(instance, error, "New nodes keep the taint of an instance.");
            Ok(())
        }
        admitted => admitted,
    };
    match drain::release(instance, context).await.and(admitted) {
        Ok(()) => Outcome::Unmanaged,
        Err(error) => Outcome::Failed(error),
    }
}

/// All stages but the last. An error ends them early.
async fn deploy(instance: &CSIDriverDeployment, context: &Context) -> Result<Synced, Outcome> {
    let fetched = match fetch::fetch(instance, context).await {
        Err(problem) if problem.needs_a_person() => {
            return Err(stop(instance, problem, context).await);
        }
        fetched => fetched?,
    };
    let (first_port, mut warnings) = (fetched.first_port, Vec::new());
    let mut drained = Drained::unchanged(context.drain_of(instance));
    let mut limit = Limit::Nodes(1);
    let mut applied = match valid_driver(instance, &fetched) {
        Err(mut problems) => {
            // Nobody goes on with its nodes until it is right again.
            match drain::release(instance, context).await {
                Ok(()) => drained = Drained::default(),
                Err(error) => problems.push(Problem::may_not_drain(&error)),
            }
            problems.extend(kept_out(instance, context).await);
            Applied::nothing(fetched.objects, problems)
        }
        Ok(driver) => {
            cleanup::ensure_finalizer(instance, context).await?;
            warnings = warning::warnings(&driver, &fetched);
            let facts = facts(instance, &driver, &fetched, context).await?;
            let objects = build(&driver, &facts);
            let mut applied =
                apply::apply(instance, &driver, &objects, fetched.objects, context).await;
            drained = drain::advance(instance, &driver, &mut applied, context).await?;
            startup::admit_pods(&driver, &mut applied, context).await?;
            limit = driver.limit();
            applied
        }
    };
    let observation = observe::observe(instance, &mut applied, context).await?;
    let is_settled = observation.as_ref().is_some_and(|it| it.is_settled(limit));
    let uid = instance.uid().unwrap_or_default();
    if !applied.waits_for_turn() {
        context.rollouts.step_aside(&uid);
        if is_settled && drained.status.is_none() {
            context.rollouts.end(&uid);
        }
    }
    Ok(Synced {
        applied,
        warnings,
        observation,
        drained,
        first_port,
    })
}

/// What the generator must know of the cluster. Without it nobody goes on with the nodes of the driver: they are let go, unless
/// that may be over in a moment.
async fn facts(
    instance: &CSIDriverDeployment,
    driver: &ValidDriver,
    fetched: &Fetched,
    context: &Context,
) -> Result<Facts, Outcome> {
    match fetched.facts(driver, context).await {
        Err(problem) if problem.needs_a_person() => Err(stop(instance, problem, context).await),
        facts => Ok(facts?),
    }
}

/// Ends a reconcile that somebody has to mend something for, and keeps no pods from nodes until then.
async fn stop(instance: &CSIDriverDeployment, problem: Problem, context: &Context) -> Outcome {
    let mut problems = vec![problem];
    problems.extend(kept_out(instance, context).await);
    match drain::release(instance, context).await {
        Ok(()) => Outcome::Stopped(problems),
        // The status goes on to say which nodes are left.
        Err(error) => {
            problems.push(Problem::may_not_drain(&error));
            Outcome::Unseen(problems)
        }
    }
}

/// Lets pods to new nodes of a driver that runs as it did before. Why they are kept out, if they are.
async fn kept_out(instance: &CSIDriverDeployment, context: &Context) -> Option<Problem> {
    let admitted = startup::admit_meanwhile(instance, context).await;
    admitted.err().map(|error| Problem::may_not_untaint(&error))
}

/// The driver that an instance describes, if it is right and no other instance has a better right to it.
fn valid_driver(
    instance: &CSIDriverDeployment,
    fetched: &Fetched,
) -> Result<ValidDriver, Vec<Problem>> {
    let driver = validate(instance, &fetched.config, fetched.ports)
        .map_err(|errors| errors.iter().map(Problem::invalid).collect::<Vec<_>>())?;
    let name = &driver.driver_name;
    if let Some(rival) = &fetched.rival {
        return Err(vec![Problem::claimed(name, rival)]);
    }
    match &fetched.left_behind {
        Some((old, usage)) => Err(vec![Problem::renamed(name, old, usage)]),
        None => Ok(driver),
    }
}

/// An instance that was stored with another definition than ours. Its metadata can be read in any case.
async fn outcome_of_unreadable(
    invalid: &InvalidObject,
    context: &Context,
) -> (CSIDriverDeployment, Outcome) {
    let mut instance = CSIDriverDeployment::new("", CSIDriverDeploymentSpec::default());
    instance.metadata = invalid.metadata.clone();
    context.rollouts.end(&instance.uid().unwrap_or_default());
    let api = context.stored_instances(instance.namespace());
    let outcome = match api.get_opt(&instance.name_any()).await {
        Err(error) => Outcome::Failed(error),
        Ok(None) => Outcome::Released,
        Ok(Some(stored)) => {
            instance.metadata = stored.metadata;
            instance.status = Some(unreadable::status(&stored.data["status"]));
            instance.spec = unreadable::spec(&stored.data["spec"]);
            match instance.meta().deletion_timestamp {
                Some(_) => cleanup::cleanup(&instance, context).await,
                None => stop(&instance, Problem::unreadable(&invalid.error), context).await,
            }
        }
    };
    (instance, outcome)
}
