//! What keeps an instance from being as described, in words and reasons.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use stowage_api::driver_deployment::{CSIDriverDeployment, ConditionStatus};
use stowage_kubernetes::answer::{self, Answer};

use super::condition::{Finding, Reason, SYNC_SUCCESSFUL};
use super::recreate::Blocked;
use super::validate::FieldError;
use crate::cluster::NamedObject;
use crate::cluster::usage::Usage;
use crate::driver::Kind;
use crate::driver::rbac::{EXTRA_RULES, SECRETS_SUFFIX};
use crate::mounts::KeyError;
use crate::rights::Rights;
use crate::writer::{Key, WriteError};

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) reason: Reason,
    pub(super) message: String,
    /// Whether somebody else just wrote at the same time.
    pub(super) is_conflict: bool,
    /// Whether time may heal it. The others wait for somebody to change the instance or the object.
    pub(super) is_worth_a_retry: bool,
    /// Whether a watch tells when it is over.
    pub(super) is_watched: bool,
}

impl Problem {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            is_conflict: false,
            is_worth_a_retry: !matches!(
                reason,
                Reason::Invalid | Reason::Unreadable | Reason::ImmutableFields
            ),
            is_watched: false,
        }
    }

    pub(super) fn invalid(error: &FieldError) -> Self {
        Self::new(Reason::Invalid, error.to_string())
    }

    pub(super) fn unreadable(error: &str) -> Self {
        let message = format!(
            "the instance cannot be read: {error}; compare it with `kubectl explain csidriverdeployment.spec`"
        );
        Self::new(Reason::Unreadable, message)
    }

    pub(super) fn claimed(driver: &str, by: &str) -> Self {
        let message = format!(
            "spec.driverName: Duplicate value: \"{driver}\": CSIDriverDeployment {by} already deploys it, and a \
             kubelet registers only one driver of a name"
        );
        Self::new(Reason::Collision, message)
    }

    /// What the operator may not see, if there is anything.
    pub(super) fn missing_rights(rights: &Rights) -> Option<Self> {
        let message = rights.message()?;
        Some(Self::new(Reason::Forbidden, message))
    }

    /// The workloads may not be looked at.
    pub(super) fn unseen(error: &kube::Error) -> Self {
        let message = format!(
            "cannot determine whether the driver is available: {}",
            answer::chain(error)
        );
        Self::new(Reason::Forbidden, message)
    }

    /// Nodes cannot be emptied, or not be let go of.
    pub(super) fn may_not_drain(error: &kube::Error) -> Self {
        let message = format!(
            "cannot empty nodes before their driver pod is replaced: {}; `operator.draining: true` of the chart, or `deploy/draining.yaml`, grants what that needs",
            answer::chain(error)
        );
        Self::new(Reason::Forbidden, message)
    }

    /// New nodes keep the taint that waits for the driver.
    pub(super) fn may_not_untaint(error: &kube::Error) -> Self {
        let message = format!(
            "cannot remove `startupTaint` from nodes that have the driver: {}; `operator.startupTaint: true` of the chart, or `deploy/startup-taint.yaml`, grants what that needs",
            answer::chain(error)
        );
        Self::new(Reason::Forbidden, message)
    }

    /// An object of `restartOn` that the operator may not see. `operator`: its own namespace.
    pub(super) fn may_not_follow(object: &NamedObject, operator: &str) -> Self {
        let namespace = &object.namespace;
        let message = format!(
            "the operator may not watch {object}, which `restartOn` names: add {namespace} to the chart's \
             `operator.restartOnNamespaces`, or kubectl create rolebinding csi-operator-restart-on \
             --clusterrole=csi-operator-restart-on --serviceaccount={operator}:csi-operator --namespace={namespace}"
        );
        Self::new(Reason::Forbidden, message)
    }

    /// An object of `restartOn` of which the API server has said nothing yet.
    pub(super) fn unread(object: &NamedObject) -> Self {
        let message = format!("{object}, which `restartOn` names, cannot be read");
        Self::new(Reason::ApiError, message)
    }

    /// Nodes cannot be asked what is mounted.
    pub(super) fn no_mounts_key(error: &KeyError) -> Self {
        let message = format!("cannot ask nodes what is mounted: {}", answer::chain(error));
        let reason = match error {
            KeyError::Unread(_) => Reason::ApiError,
            KeyError::Invalid => Reason::Invalid,
        };
        Self {
            // Nobody watches the Secret.
            is_worth_a_retry: true,
            ..Self::new(reason, message)
        }
    }

    /// Whether it stays until somebody mends something: the instance, a right or an object of the operator's own.
    pub(super) fn needs_a_person(&self) -> bool {
        matches!(
            self.reason,
            Reason::Forbidden | Reason::Invalid | Reason::Unreadable
        )
    }

    /// The driver has volumes to look after.
    pub(super) fn in_use(driver: &str, usage: &Usage) -> Self {
        let message = format!(
            "CSI driver {driver} is removed as soon as nothing uses it: {usage}; \
             `uninstallPolicy: Force` removes it at once, and then these can be neither unmounted nor deleted"
        );
        Self {
            is_watched: usage.has_objects(),
            ..Self::new(Reason::InUse, message)
        }
    }

    /// Nobody knows whether the driver has volumes to look after.
    pub(super) fn unknown_use(driver: &str, error: &kube::Error) -> Self {
        let message = format!(
            "cannot determine whether CSI driver {driver} is in use: {}",
            answer::chain(error)
        );
        Self::new(Reason::ApiError, message)
    }

    /// The driver would get another name while it has volumes of the old one.
    pub(super) fn renamed(new: &str, old: &str, usage: &Usage) -> Self {
        let message = format!(
            "spec.driverName: Invalid value: \"{new}\": the driver runs as {old}, and volumes of that name could no \
             longer be used: {usage}; change it back to \"{old}\", or delete them first"
        );
        Self::new(Reason::InUse, message)
    }

    /// Pods of other drivers are replaced first.
    pub(super) fn not_its_turn(others: &[String]) -> Self {
        let message = format!(
            "the operator or its configuration has changed, and replaces the pods of few drivers at a time \
             (`--max-concurrent-rollouts`): waiting for {}",
            others.join(", ")
        );
        Self::new(Reason::WaitingForTurn, message)
    }

    /// A field that cannot change in place, and what to do.
    pub(super) fn immutable(error: &WriteError, blocked: &Blocked) -> Self {
        let message = format!("{error}. {}", blocked.remedy);
        Self {
            is_worth_a_retry: blocked.may_pass,
            ..Self::new(Reason::ImmutableFields, message)
        }
    }

    /// `operator`: its own namespace.
    pub(super) fn of_write(
        error: &WriteError,
        instance: &CSIDriverDeployment,
        operator: &str,
    ) -> Self {
        let reason = match error {
            WriteError::Collision(_) => Reason::Collision,
            WriteError::Immutable { .. } => Reason::ImmutableFields,
            WriteError::Contested { .. } => Reason::Contested,
            WriteError::Api { source, .. } => match Answer::of(source) {
                Answer::Forbidden(_) | Answer::Terminating => Reason::Forbidden,
                Answer::Refused(_) => Reason::Rejected,
                Answer::Gone | Answer::NotServed | Answer::Conflict | Answer::Unavailable => {
                    Reason::ApiError
                }
            },
        };
        let message = match error {
            WriteError::Api { key, source } => format!(
                "error syncing {key} for CSIDriverDeployment {}: {}{}",
                title(instance),
                answer::chain(source.as_ref()),
                if reason == Reason::Forbidden {
                    grant_remedy(key, operator)
                } else {
                    String::new()
                }
            ),
            WriteError::Collision(key) if key.kind == Kind::ServiceAccount => {
                format!("{error}; until then nothing is granted to it and no pods run as it")
            }
            WriteError::Collision(_)
            | WriteError::Immutable { .. }
            | WriteError::Contested { .. } => error.to_string(),
        };
        Self {
            is_conflict: error.is_conflict(),
            ..Self::new(reason, message)
        }
    }
}

/// Nobody can grant what they do not have: how the operator gets it, where it cannot know beforehand what it needs.
fn grant_remedy(key: &Key, operator: &str) -> String {
    match (key.kind, &key.namespace) {
        (Kind::Role, Some(namespace)) if key.name.ends_with(SECRETS_SUFFIX) => {
            format!(
                "; the operator must have this right itself: add {namespace} to the chart's `operator.secretNamespaces`, or \
                 kubectl create rolebinding csi-operator-secrets --clusterrole=csi-operator-secrets \
                 --serviceaccount={operator}:csi-operator --namespace={namespace}"
            )
        }
        (Kind::Role | Kind::ClusterRole, _) if key.name.contains(EXTRA_RULES) => {
            "; `extraRules` can grant only what the operator's account has been granted".to_owned()
        }
        (Kind::ClusterRole, _) => {
            "; with `secretAccess: Cluster` it needs `operator.secretsOfAllNamespaces: true` of the chart, or \
             `deploy/secrets-of-all-namespaces.yaml`"
                .to_owned()
        }
        _ => String::new(),
    }
}

/// Namespace and name of an instance, for messages.
pub(super) fn title(instance: &CSIDriverDeployment) -> String {
    let namespace = instance.namespace().unwrap_or_default();
    format!("{namespace}/{}", instance.name_any())
}

/// The condition `SyncSuccessful`.
pub(super) fn sync_finding(problems: &[Problem], warnings: &[Problem]) -> Finding {
    let (status, reasons) = match problems {
        [] => (ConditionStatus::True, warnings),
        problems => (ConditionStatus::False, problems),
    };
    let lines: Vec<_> = reasons.iter().map(|it| it.message.as_str()).collect();
    Finding {
        about: SYNC_SUCCESSFUL,
        status,
        reason: reasons.first().map_or(Reason::Synced, |it| it.reason),
        message: lines.join("\n"),
    }
}

/// A pod of a driver that is being removed.
pub(super) fn pod_left(pod: &Pod) -> Problem {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let message = format!(
        "Pod {} on node {} is still there: its rights stay until it is gone; if its node is lost, delete the Node, or \
         the pod with `--force`",
        pod.name_any(),
        node.unwrap_or("(none)")
    );
    Problem::new(Reason::PodsRemain, message)
}

/// An object that was deleted and is still there.
pub(super) fn lingering(key: &Key) -> Problem {
    let message = format!("{key} is being deleted and still exists: see its metadata.finalizers");
    Problem::new(Reason::ApiError, message)
}
