//! What the workloads of a driver are doing.

mod finding;
mod pod;
#[cfg(test)]
mod tests;
mod workload;

use kube::{Error, ResourceExt};
use stowage_api::driver_deployment::CSIDriverDeployment;
use stowage_kubernetes::answer::Answer;

use self::pod::PodFailure;
pub(super) use self::workload::Workload;
use super::apply::Applied;
use super::context::Context;
use super::problem::Problem;
use crate::driver::Kind;

/// What the workloads look like.
#[derive(Clone, Debug, Default)]
pub(super) struct Observation {
    /// The DaemonSets.
    daemon_sets: Vec<Workload>,
    /// The Deployment.
    deployment: Option<Workload>,
    /// How many kubelets have registered the driver.
    registered: i64,
    /// The first pod that does not run.
    failing_pod: Option<PodFailure>,
    /// Whether old pods are replaced only when somebody deletes them.
    waits_for_deletion: bool,
}

impl Observation {
    /// Reads what the workloads count themselves.
    pub(super) fn of(applied: &Applied, registered: usize) -> Self {
        let daemon_sets = || applied.of_kind(Kind::DaemonSet);
        Self {
            daemon_sets: daemon_sets().map(Workload::of_daemon_set).collect(),
            deployment: applied
                .of_kind(Kind::Deployment)
                .map(Workload::of_deployment)
                .next(),
            registered: i64::try_from(registered).unwrap_or(i64::MAX),
            failing_pod: None,
            waits_for_deletion: daemon_sets()
                .any(|it| it.data["spec"]["updateStrategy"]["type"] == "OnDelete"),
        }
    }

    /// Whether there is anything to look at.
    pub(super) fn is_deployed(&self) -> bool {
        !self.daemon_sets.is_empty()
    }

    fn desired(&self) -> i64 {
        self.daemon_sets.iter().map(|it| it.desired).sum()
    }

    /// Nodes where the driver can be used: its pod is ready and its kubelet has registered it.
    fn ready(&self) -> i64 {
        let available = self.daemon_sets.iter().map(|it| it.available).sum::<i64>();
        available.min(self.registered)
    }

    /// Ready and desired nodes.
    pub(super) fn nodes(&self) -> (i64, i64) {
        (self.ready(), self.desired())
    }

    /// Whether anything is not as it should be, so that pods are worth a look.
    fn has_gaps(&self) -> bool {
        let mut workloads = self.daemon_sets.iter().chain(&self.deployment);
        workloads.any(|it| !it.is_ready()) || self.ready() < self.desired()
    }
}

/// Looks at the workloads, and where they lack pods at those. `None`: there is no telling, and the problems say why.
pub(super) async fn observe(
    instance: &CSIDriverDeployment,
    applied: &mut Applied,
    context: &Context,
) -> Result<Option<Observation>, Error> {
    if applied.is_outpaced() {
        return Ok(None);
    }
    match look(instance, applied, context).await {
        Ok(observation) => Ok(Some(observation)),
        Err(error) if matches!(Answer::of(&error), Answer::Forbidden(_)) => {
            applied.problems.push(Problem::unseen(&error));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn look(
    instance: &CSIDriverDeployment,
    applied: &Applied,
    context: &Context,
) -> Result<Observation, Error> {
    let registered = context.cluster.registrations_of(&instance.spec.driver_name);
    let mut observation = Observation::of(applied, registered);
    if !observation.has_gaps() {
        return Ok(observation);
    }
    let (client, namespace) = (&context.client, instance.namespace().unwrap_or_default());
    let (daemon_sets, deployment) = (&observation.daemon_sets, observation.deployment.as_ref());
    observation.failing_pod =
        pod::first_failure(client, &namespace, daemon_sets, deployment).await?;
    if observation.failing_pod.is_some() {
        return Ok(observation);
    }
    let objects = applied.of_kind(Kind::DaemonSet);
    for (workload, object) in observation.daemon_sets.iter_mut().zip(objects) {
        // One that is not allowed to create any pod never gets as far as counting them.
        if workload.missing() > 0 || workload.is_without_pods() {
            workload.failure = pod::refused_pods(client, object).await?;
        }
    }
    Ok(observation)
}
