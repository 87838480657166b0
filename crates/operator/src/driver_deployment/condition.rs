//! Conditions: what they are about, why they are as they are, and since when.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use stowage_api::driver_deployment::{ConditionStatus, DriverCondition, IN_USE};

/// Whether the driver can be used.
pub(super) const AVAILABLE: &str = "Available";
/// Whether the last change was put into effect.
pub(super) const SYNC_SUCCESSFUL: &str = "SyncSuccessful";
/// Whether pods are still being replaced.
pub(super) const PROGRESSING: &str = "Progressing";

/// Why a condition is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Every pod runs and every kubelet has registered the driver.
    Ready,
    /// Kubernetes has not processed the current pod templates yet.
    Starting,
    /// Node pods are missing or not ready.
    NodesNotReady,
    /// Controller pods are missing or not ready.
    ControllerNotReady,
    /// Pods run, and kubelets have not registered the driver.
    NotRegistered,
    /// The driver reports another name.
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
    /// An object was asked for of a kind that the cluster does not know.
    MissingKind,
    /// The instance has mistakes.
    Invalid,
    /// The instance cannot be read at all.
    Unreadable,
    /// Something of this name belongs to somebody else.
    Collision,
    /// Fields changed that cannot change.
    ImmutableFields,
    /// Volumes of the driver are in the way.
    InUse,
    /// Pods of a driver that is being removed are in the way.
    PodsRemain,
    /// The operator lacks a right.
    Forbidden,
    /// The server refused an object.
    Rejected,
    /// The server could not be asked.
    ApiError,
    /// Somebody else changes an object again and again.
    Contested,
    /// Other drivers have their pods replaced first.
    WaitingForTurn,
    /// Pods are being replaced.
    RollingOut,
    /// Nodes are emptied before their pod is replaced.
    Draining,
    /// The same, and somebody asked not to go on.
    DrainPaused,
    /// The same, and a node took too long.
    DrainStopped,
    /// Old pods wait for somebody to delete them.
    WaitingForDeletion,
    /// All pods are of the current template.
    Complete,
}

impl Reason {
    /// As it is written in a condition.
    pub(super) fn as_str(self) -> &'static str {
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
            Self::MissingKind => "MissingKind",
            Self::Invalid => "Invalid",
            Self::Unreadable => "Unreadable",
            Self::Collision => "Collision",
            Self::ImmutableFields => "ImmutableFields",
            Self::InUse => IN_USE,
            Self::PodsRemain => "PodsRemain",
            Self::Forbidden => "Forbidden",
            Self::Rejected => "Rejected",
            Self::ApiError => "ApiError",
            Self::Contested => "Contested",
            Self::WaitingForTurn => "WaitingForTurn",
            Self::RollingOut => "RollingOut",
            Self::Draining => "Draining",
            Self::DrainPaused => "DrainPaused",
            Self::DrainStopped => "DrainStopped",
            Self::WaitingForDeletion => "WaitingForDeletion",
            Self::Complete => "Complete",
        }
    }
}

/// A condition before it is known when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Type of the condition.
    pub(super) about: &'static str,
    /// Whether it holds.
    pub(super) status: ConditionStatus,
    /// Why.
    pub(super) reason: Reason,
    /// Why, in sentences.
    pub(super) message: String,
}

/// Conditions with the time since when they hold: the old one where the status is the same.
pub(super) fn conditions(
    before: &[DriverCondition],
    findings: impl IntoIterator<Item = Finding>,
    generation: Option<i64>,
) -> Vec<DriverCondition> {
    let of = |finding: Finding| {
        let old = before.iter().find(|it| it.type_ == finding.about);
        let since = old
            .filter(|it| it.status == finding.status)
            .and_then(|it| it.last_transition_time.clone());
        DriverCondition {
            type_: finding.about.to_owned(),
            status: finding.status,
            last_transition_time: since.or_else(|| Some(Time(Timestamp::now()))),
            reason: Some(finding.reason.as_str().to_owned()),
            message: Some(finding.message),
            observed_generation: generation,
        }
    };
    findings.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let finding = |status, message: &str| Finding {
            about: AVAILABLE,
            status,
            reason: Reason::Ready,
            message: message.to_owned(),
        };
        let mut old = conditions(&[], [finding(ConditionStatus::True, "1 of 1")], Some(1));
        old[0].last_transition_time = Some(Time(Timestamp::UNIX_EPOCH));
        let same = conditions(&old, [finding(ConditionStatus::True, "2 of 2")], Some(2));
        assert_eq!(same[0].last_transition_time, old[0].last_transition_time);
        let other = conditions(&old, [finding(ConditionStatus::False, "0 of 2")], Some(2));
        assert_ne!(other[0].last_transition_time, old[0].last_transition_time);
    }
}
