//! What an instance says about itself: computed from what was applied and observed, written only when it changed.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DynamicObject, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use stowage_api::driver_deployment::{
    CSIDriverDeployment, CSIDriverDeploymentStatus, Child, ConditionStatus, DriverCondition,
};
use stowage_kubernetes::answer;
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};

use super::context::Context;
use super::observe::{Trouble, Workload};
use crate::writer::{FIELD_MANAGER, Key};

/// Types of conditions.
pub const AVAILABLE: &str = "Available";
/// Whether the last change was put into effect.
pub const SYNC_SUCCESSFUL: &str = "SyncSuccessful";
/// Whether pods are still being replaced.
pub const PROGRESSING: &str = "Progressing";

/// Why a condition is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Every pod runs and every node knows the driver.
    Ready,
    /// The workloads have not been looked at by their controllers yet.
    Starting,
    /// Node pods are missing or not ready.
    NodesNotReady,
    /// Controller pods are missing or not ready.
    ControllerNotReady,
    /// Pods run, and kubelets do not know the driver.
    NotRegistered,
    /// The driver calls itself something else.
    DriverNameMismatch,
    /// Nothing can be said because nothing was made.
    NotDeployed,
    /// Everything is as described.
    Synced,
    /// The name of the driver cannot be that of a CSIDriver object.
    CsiDriverNameUnfit,
    /// A class names secrets that depend on the claim.
    SecretAccessNeeded,
    /// A template has an account of its own, which needs rights from somebody else.
    OwnServiceAccount,
    /// A class was asked for that the cluster does not know.
    NoSnapshotSupport,
    /// The instance has mistakes.
    Invalid,
    /// The instance cannot be read at all.
    Unreadable,
    /// Something of this name belongs to somebody else.
    Collision,
    /// Fields changed that cannot change.
    ImmutableFields,
    /// The operator lacks a right.
    Forbidden,
    /// The server refused an object.
    Rejected,
    /// The server could not be asked.
    ApiError,
    /// Pods are being replaced.
    RollingOut,
    /// Old pods wait for somebody to delete them.
    WaitingForDeletion,
    /// All pods are of the current template.
    Complete,
}

impl Reason {
    /// As it is written in a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Starting => "Starting",
            Self::NodesNotReady => "NodesNotReady",
            Self::ControllerNotReady => "ControllerNotReady",
            Self::NotRegistered => "NotRegistered",
            Self::DriverNameMismatch => "DriverNameMismatch",
            Self::NotDeployed => "NotDeployed",
            Self::Synced => "Synced",
            Self::CsiDriverNameUnfit => "CSIDriverNameUnfit",
            Self::SecretAccessNeeded => "SecretAccessNeeded",
            Self::OwnServiceAccount => "OwnServiceAccount",
            Self::NoSnapshotSupport => "NoSnapshotSupport",
            Self::Invalid => "Invalid",
            Self::Unreadable => "Unreadable",
            Self::Collision => "Collision",
            Self::ImmutableFields => "ImmutableFields",
            Self::Forbidden => "Forbidden",
            Self::Rejected => "Rejected",
            Self::ApiError => "ApiError",
            Self::RollingOut => "RollingOut",
            Self::WaitingForDeletion => "WaitingForDeletion",
            Self::Complete => "Complete",
        }
    }
}

/// A condition before it is known when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Type of the condition.
    pub about: &'static str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why.
    pub reason: Reason,
    /// Why, in sentences.
    pub message: String,
}

/// What the workloads look like.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The DaemonSets.
    pub daemon_sets: Vec<Workload>,
    /// The Deployment.
    pub deployment: Option<Workload>,
    /// How many kubelets know the driver.
    pub registered: i64,
    /// The first pod that does not run.
    pub trouble: Option<Trouble>,
    /// Whether old pods are replaced only when somebody deletes them.
    pub waits_for_deletion: bool,
}

impl Observation {
    fn desired(&self) -> i64 {
        self.daemon_sets.iter().map(|it| it.desired).sum()
    }

    /// Nodes where the driver can be used: its pod is ready and the kubelet knows it.
    fn ready(&self) -> i64 {
        let available = self.daemon_sets.iter().map(|it| it.available).sum::<i64>();
        available.min(self.registered)
    }

    /// For the column of `kubectl get`.
    pub fn nodes(&self) -> String {
        format!("{}/{}", self.ready(), self.desired())
    }

    /// Ready and desired nodes.
    pub fn node_counts(&self) -> (i64, i64) {
        (self.ready(), self.desired())
    }

    /// Whether anything is not as it should be, so that pods are worth a look.
    pub fn has_gaps(&self) -> bool {
        let workloads = self.daemon_sets.iter().chain(&self.deployment);
        workloads.into_iter().any(|it| !it.is_ready()) || self.ready() < self.desired()
    }

    /// Whether the driver can be used.
    pub fn available(&self, driver: &str) -> Finding {
        let finding = |status, reason, message| Finding {
            about: AVAILABLE,
            status,
            reason,
            message,
        };
        let counts = format!("{} of {} nodes ready", self.ready(), self.desired());
        let reported = self
            .trouble
            .as_ref()
            .and_then(|it| it.reported_name.as_ref());
        if let Some(reported) = reported {
            let message = format!(
                "The driver reports the name `{reported}`, but `driverName` is `{driver}`: change one of them. {counts}."
            );
            return finding(ConditionStatus::False, Reason::DriverNameMismatch, message);
        }
        let mut idle = self.daemon_sets.iter().filter(|it| it.is_without_pods());
        if let Some(refused) = idle.find_map(|it| it.failure.as_ref()) {
            let message = format!("{counts}.\n{refused}");
            return finding(ConditionStatus::False, Reason::NodesNotReady, message);
        }
        let workloads: Vec<_> = self.daemon_sets.iter().chain(&self.deployment).collect();
        if workloads.iter().any(|it| !it.is_current) {
            let message = format!("Kubernetes has not looked at the current pods yet; {counts}.");
            return finding(ConditionStatus::False, Reason::Starting, message);
        }
        let nodes = self.daemon_sets.iter().map(|it| ("DaemonSet", it));
        let controller = self.deployment.iter().map(|it| ("Deployment", it));
        let short: Vec<_> = controller
            .chain(nodes)
            .filter(|(_, it)| !it.is_ready())
            .collect();
        let mut lines: Vec<_> = short
            .iter()
            .map(|(kind, it)| {
                let (name, missing) = (&it.name, it.missing());
                format!("{kind} \"{name}\" with CSI driver has {missing} not ready pod(s).")
            })
            .collect();
        lines.extend(workloads.iter().filter_map(|it| it.failure.clone()));
        let reason = match short.first() {
            Some(("Deployment", _)) => Reason::ControllerNotReady,
            Some(_) => Reason::NodesNotReady,
            None if self.ready() < self.desired() => {
                lines.push(
                    "Pods run, but not every kubelet has registered the driver: see `kubectl get csinodes`."
                        .to_owned(),
                );
                Reason::NotRegistered
            }
            None => return finding(ConditionStatus::True, Reason::Ready, format!("{counts}.")),
        };
        lines.extend(self.trouble.as_ref().map(|it| it.text.clone()));
        let message = format!("{counts}.\n{}", lines.join("\n"));
        finding(ConditionStatus::False, reason, message)
    }

    /// Whether pods are still being replaced.
    pub fn progressing(&self) -> Finding {
        let rolling: Vec<_> = self
            .daemon_sets
            .iter()
            .chain(&self.deployment)
            .filter(|it| !it.is_rolled_out())
            .map(|it| format!("{}: {} of {} pods updated", it.name, it.updated, it.desired))
            .collect();
        let (status, reason) = match (rolling.is_empty(), self.waits_for_deletion) {
            (true, _) => (ConditionStatus::False, Reason::Complete),
            (false, true) => (ConditionStatus::True, Reason::WaitingForDeletion),
            (false, false) => (ConditionStatus::True, Reason::RollingOut),
        };
        Finding {
            about: PROGRESSING,
            status,
            reason,
            message: rolling.join("\n"),
        }
    }
}

/// Conditions with the time since when they hold: the old one where the status is the same.
pub fn conditions(
    before: Option<&[DriverCondition]>,
    findings: Vec<Finding>,
    generation: Option<i64>,
) -> Vec<DriverCondition> {
    let now = || Some(Time(Timestamp::now()));
    let of = |finding: Finding| {
        let old = before
            .into_iter()
            .flatten()
            .find(|it| it.type_ == finding.about);
        let since = old
            .filter(|it| it.status == finding.status)
            .and_then(|it| it.last_transition_time.clone());
        DriverCondition {
            type_: finding.about.to_owned(),
            status: finding.status,
            last_transition_time: since.or_else(now),
            reason: Some(finding.reason.as_str().to_owned()),
            message: Some(finding.message),
            observed_generation: generation,
        }
    };
    findings.into_iter().map(of).collect()
}

/// The status with one condition replaced; everything else stays.
pub fn with_finding(
    before: &CSIDriverDeploymentStatus,
    finding: Finding,
    generation: Option<i64>,
) -> CSIDriverDeploymentStatus {
    let message = summary(std::slice::from_ref(&finding));
    let about = finding.about;
    let known = before.conditions.as_deref();
    let mut conditions: Vec<_> = conditions(known, vec![finding], generation);
    let others = known.into_iter().flatten().filter(|it| it.type_ != about);
    conditions.extend(others.cloned());
    CSIDriverDeploymentStatus {
        message: Some(message),
        conditions: Some(conditions),
        ..before.clone()
    }
}

/// The line for `kubectl get`: what is wrong, or how many nodes are ready.
pub fn summary(findings: &[Finding]) -> String {
    let sync = findings
        .iter()
        .find(|it| it.about == SYNC_SUCCESSFUL && it.status != ConditionStatus::True);
    let available = findings.iter().find(|it| it.about == AVAILABLE);
    let message = sync
        .or(available)
        .map(|it| it.message.as_str())
        .unwrap_or_default();
    message.lines().next().unwrap_or_default().to_owned()
}

/// The entry of an object in `status.children`.
pub fn child(key: &Key, object: &DynamicObject) -> Child {
    Child {
        group: key.kind.group().to_owned(),
        resource: key.kind.name().to_owned(),
        namespace: key.namespace.clone().unwrap_or_default(),
        name: key.name.clone(),
        last_generation: object.metadata.generation.unwrap_or_default(),
        uid: object.metadata.uid.clone(),
    }
}

/// Writes the status, unless it is already there. Called twice: the second time sends nothing.
pub(super) async fn write(
    instance: &CSIDriverDeployment,
    context: &Context,
    after: &CSIDriverDeploymentStatus,
) -> Result<(), kube::Error> {
    if instance.status.as_ref() == Some(after) {
        return Ok(());
    }
    let (name, uid) = (instance.name_any(), instance.uid().unwrap_or_default());
    let patch = ObjectPatch::of(&uid).set(["status"], json!(after));
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PARAMS
    };
    let api = context.stored_instances(instance.namespace());
    let written = api
        .patch_status(&name, &parameters, &patch.into_patch())
        .await;
    match written {
        // The instance is gone: nobody is left to be told.
        Err(error) if answer::is_gone(&error) => Ok(()),
        written => written.map(|_| ()),
    }
}

/// Owner and name of an instance, for messages.
pub fn title(instance: &CSIDriverDeployment) -> String {
    let meta = instance.meta();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", meta.name.as_deref().unwrap_or_default())
}
