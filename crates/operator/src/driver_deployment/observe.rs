//! What the workloads of a driver are doing.

mod finding;
mod pod;
mod registered;
#[cfg(test)]
mod tests;
mod workload;

use kube::{Error, ResourceExt};
use stowage_api::driver_deployment::{CSIDriverDeployment, DAEMON_SET_LABEL, DEPLOYMENT_LABEL};
use stowage_kubernetes::answer::Answer;

pub(super) use self::workload::Workload;
use super::apply::Applied;
use super::context::Context;
use super::problem::Problem;
use crate::cluster::PodFailure;
use crate::driver::Kind;
use crate::driver::valid::Limit;

/// What the workloads look like.
#[derive(Clone, Debug, Default)]
pub(super) struct Observation {
    /// The DaemonSets.
    daemon_sets: Vec<Workload>,
    /// The Deployment.
    deployment: Option<Workload>,
    /// How many kubelets have registered the driver.
    registered: i64,
    /// Names that kubelets know it by instead, as far as nobody else has them.
    other_names: Vec<String>,
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
            other_names: Vec::new(),
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

    /// Whether pods are replaced as far as they can be: fewer nodes lack theirs than an update takes away at a time, such as
    /// nodes that are lost.
    pub(super) fn is_settled(&self, limit: Limit) -> bool {
        let total = usize::try_from(self.desired()).unwrap_or_default();
        let updated: i64 = self.daemon_sets.iter().map(|it| it.updated).sum();
        let missing = self.desired() - updated.min(self.ready());
        let is_few = missing < i64::try_from(limit.of(total)).unwrap_or(i64::MAX);
        let workloads = || self.daemon_sets.iter().chain(&self.deployment);
        let is_current = workloads().all(|it| it.is_current);
        let mut controller = self.deployment.iter();
        is_few && is_current && controller.all(|it| it.is_ready() && it.is_rolled_out())
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
    let nodes = observation.daemon_sets.iter();
    let nodes = nodes.map(|it| (DAEMON_SET_LABEL, it));
    let controller = observation.deployment.iter();
    let controller = controller.map(|it| (DEPLOYMENT_LABEL, it));
    let mut failures = nodes
        .chain(controller)
        .filter_map(|(label, it)| context.cluster.failing_pod(label, &namespace, &it.name));
    observation.failing_pod = failures.next();
    if observation.failing_pod.is_some() {
        return Ok(observation);
    }
    // Where some kubelets know it the others are about to.
    let running = observation.daemon_sets.iter().find(|it| it.available > 0);
    if let Some(set) = running.filter(|_| observation.registered == 0) {
        let names = registered::unclaimed_names(instance, &set.name, context).await?;
        observation.other_names = names;
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
