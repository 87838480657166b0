//! How far the expansion of a claim has come, as its status says. Pure.

use stowage_api::quantity::{self, QuantityError};

use crate::cluster::claim::NODE_RESIZE_INFEASIBLE;
use crate::cluster::wire::WireClaim;

/// Condition types of expansion.
pub(super) const RESIZING: &str = "Resizing";
pub(super) const FILE_SYSTEM_RESIZE_PENDING: &str = "FileSystemResizePending";
pub(super) const CONTROLLER_RESIZE_ERROR: &str = "ControllerResizeError";
pub(super) const NODE_RESIZE_ERROR: &str = "NodeResizeError";
pub(super) const RESIZE_CONDITIONS: [&str; 4] = [
    RESIZING,
    FILE_SYSTEM_RESIZE_PENDING,
    CONTROLLER_RESIZE_ERROR,
    NODE_RESIZE_ERROR,
];

/// Tells the kubelet that there is nothing for it to do.
pub(super) const NODE_EXPANSION_NOT_REQUIRED: &str =
    "volume.kubernetes.io/node-expansion-not-required";

/// A claim as it is now, as far as its size goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) uid: String,
    pub(super) version: String,
    /// What is asked for, in bytes.
    pub(super) requested: i64,
    /// What users of the claim have.
    pub(super) capacity: i64,
    /// The same as it is written.
    pub(super) capacity_text: String,
    /// The size that is being reached, on servers with a field for it.
    pub(super) allocated: Option<i64>,
    pub(super) stage: Stage,
    /// The conditions of expansion that are true, with their messages.
    pub(super) conditions: Vec<(&'static str, String)>,
    pub(super) node_expansion_not_required: bool,
}

/// Who is at work, on servers with a field for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    None,
    ControllerInProgress,
    ControllerInfeasible,
    NodePending,
    NodeInProgress,
    NodeInfeasible,
}

impl Stage {
    fn read(text: &str) -> Self {
        match text {
            "ControllerResizeInProgress" => Self::ControllerInProgress,
            "ControllerResizeInfeasible" => Self::ControllerInfeasible,
            "NodeResizePending" => Self::NodePending,
            "NodeResizeInProgress" => Self::NodeInProgress,
            NODE_RESIZE_INFEASIBLE => Self::NodeInfeasible,
            _ => Self::None,
        }
    }

    pub(super) fn text(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::ControllerInProgress => Some("ControllerResizeInProgress"),
            Self::ControllerInfeasible => Some("ControllerResizeInfeasible"),
            Self::NodePending => Some("NodeResizePending"),
            Self::NodeInProgress => Some("NodeResizeInProgress"),
            Self::NodeInfeasible => Some(NODE_RESIZE_INFEASIBLE),
        }
    }
}

impl Progress {
    pub(super) fn read(claim: &WireClaim) -> Result<Self, QuantityError> {
        let status = &claim.status;
        let some_bytes = |text: &str| match text {
            "" => Ok(None),
            text => quantity::size(text).map(Some),
        };
        let known = |wire: &str| RESIZE_CONDITIONS.into_iter().find(|known| *known == wire);
        let conditions = status
            .conditions
            .iter()
            .filter(|condition| condition.status == "True")
            .filter_map(|condition| Some((known(&condition.r#type)?, condition.message.clone())))
            .collect();
        let annotations = claim.metadata.annotations.as_ref();
        Ok(Self {
            uid: claim.metadata.uid.clone().unwrap_or_default(),
            version: claim.metadata.resource_version.clone().unwrap_or_default(),
            requested: quantity::size(&claim.spec.resources.requests.storage)?,
            capacity: some_bytes(&status.capacity.storage)?.unwrap_or(0),
            capacity_text: status.capacity.storage.clone(),
            allocated: some_bytes(&status.allocated_resources.storage)?,
            stage: Stage::read(&status.allocated_resource_statuses.storage),
            conditions,
            node_expansion_not_required: annotations
                .is_some_and(|all| all.contains_key(NODE_EXPANSION_NOT_REQUIRED)),
        })
    }

    pub(super) fn has(&self, condition: &str) -> bool {
        self.message(condition).is_some()
    }

    pub(super) fn message(&self, condition: &str) -> Option<&str> {
        let mut all = self.conditions.iter();
        all.find(|(kind, _)| *kind == condition)
            .map(|(_, message)| message.as_str())
    }
}
