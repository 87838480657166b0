//! What is written to claims and volumes. Pure.
//!
//! Patches of claims are strategic: they name the conditions that they set or remove, and leave everybody else's alone.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Map, Value, json};

use super::{
    progress::{
        CONTROLLER_RESIZE_ERROR, FILE_SYSTEM_RESIZE_PENDING, NODE_EXPANSION_NOT_REQUIRED, Progress,
        RESIZE_CONDITIONS, RESIZING, Stage,
    },
    step::Grown,
};
use crate::{
    cluster::volume::{PRE_RESIZE_CAPACITY, Volume},
    events, quantity,
};

const NODE_MUST_FOLLOW: &str =
    "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";

/// Where a target and a stage are written, if anywhere: servers before 1.28 have no fields for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Fields,
    ConditionsOnly,
}

/// The expansion to `target` begins. `None`: the claim says so already.
pub(super) fn begun(claim: &Progress, target: i64, record: Record) -> Option<Value> {
    let same_target = claim.allocated == Some(target);
    let retries = matches!(
        claim.stage,
        Stage::ControllerInProgress | Stage::ControllerInfeasible | Stage::NodeInfeasible
    );
    let recorded = record == Record::ConditionsOnly || (same_target && retries);
    let pending = claim.has(FILE_SYSTEM_RESIZE_PENDING);
    if recorded && claim.has(RESIZING) && !pending && !claim.node_expansion_not_required {
        return None;
    }
    let mut patch = Patch::of(claim);
    if !claim.has(RESIZING) {
        patch.set(RESIZING, None);
    }
    patch.remove(FILE_SYSTEM_RESIZE_PENDING);
    if record == Record::Fields && !recorded {
        // An error is about the size that was tried.
        patch.remove(CONTROLLER_RESIZE_ERROR);
        patch.allocate(target);
        patch.stage(Stage::ControllerInProgress);
    }
    if claim.node_expansion_not_required {
        patch.annotate(Value::Null);
    }
    Some(patch.checked())
}

/// The volume has the size, the node has to follow.
pub(super) fn handed_over(claim: &Progress, target: i64, record: Record) -> Value {
    let mut patch = Patch::of(claim);
    for condition in RESIZE_CONDITIONS {
        patch.remove(condition);
    }
    patch.set(FILE_SYSTEM_RESIZE_PENDING, Some(NODE_MUST_FOLLOW));
    if record == Record::Fields {
        if claim.allocated.is_none_or(|allocated| allocated < target) {
            patch.allocate(target);
        }
        patch.stage(Stage::NodePending);
    }
    if claim.node_expansion_not_required {
        patch.annotate(Value::Null);
    }
    patch.checked()
}

/// The volume has the size, and there is nothing for the node to do.
pub(super) fn finished(claim: &Progress, size: i64) -> Value {
    let mut patch = Patch::of(claim);
    for condition in RESIZE_CONDITIONS {
        patch.remove(condition);
    }
    patch.status["capacity"] = json!({ "storage": quantity::text(size) });
    if claim.stage != Stage::None {
        patch.stage(Stage::None);
    }
    patch.annotate(json!("true"));
    patch.checked()
}

/// The driver said no, or cannot be asked. `None`: the claim says so already.
pub(super) fn failed(
    claim: &Progress,
    message: &str,
    infeasible: bool,
    record: Record,
) -> Option<Value> {
    let mut message = message.to_owned();
    events::cut(&mut message, events::LONGEST_MESSAGE);
    let stage_is_new =
        record == Record::Fields && infeasible && claim.stage != Stage::ControllerInfeasible;
    if !stage_is_new && claim.message(CONTROLLER_RESIZE_ERROR) == Some(message.as_str()) {
        return None;
    }
    let mut patch = Patch::of(claim);
    patch.set(CONTROLLER_RESIZE_ERROR, Some(&message));
    if stage_is_new {
        patch.stage(Stage::ControllerInfeasible);
    }
    // It may be late, but it is true of this very claim.
    Some(patch.unchecked())
}

/// The volume's object gets the new size. Where the node has to follow, it also keeps the size that the claim had.
/// `None`: it is that large already.
pub(super) fn volume_grown(volume: &Volume, claim: &Progress, grown: Grown) -> Option<Value> {
    let remember = grown.on_node && !volume.grew;
    if volume.size >= grown.size && !remember {
        return None;
    }
    let mut patch = json!({
        "metadata": { "uid": volume.uid },
        "spec": { "capacity": { "storage": quantity::text(grown.size.max(volume.size)) } },
    });
    if remember {
        patch["metadata"]["annotations"] = json!({ PRE_RESIZE_CAPACITY: claim.capacity_text });
    }
    Some(patch)
}

/// The filesystem has grown.
pub(super) fn volume_tidied(volume: &Volume) -> Value {
    json!({ "metadata": { "uid": volume.uid, "annotations": { PRE_RESIZE_CAPACITY: null } } })
}

struct Patch<'a> {
    claim: &'a Progress,
    metadata: Map<String, Value>,
    conditions: Vec<Value>,
    status: Value,
}

impl<'a> Patch<'a> {
    fn of(claim: &'a Progress) -> Self {
        let mut metadata = Map::new();
        metadata.insert("uid".to_owned(), json!(claim.uid));
        Self {
            claim,
            metadata,
            conditions: Vec::new(),
            status: json!({}),
        }
    }

    fn set(&mut self, condition: &'static str, message: Option<&str>) {
        self.conditions.retain(|known| known["type"] != condition);
        let mut value = json!({
            "type": condition,
            "status": "True",
            "lastTransitionTime": Time(Timestamp::now()),
        });
        if let Some(message) = message {
            value["message"] = json!(message);
        }
        self.conditions.push(value);
    }

    fn remove(&mut self, condition: &'static str) {
        if self.claim.has(condition) {
            self.conditions
                .push(json!({ "$patch": "delete", "type": condition }));
        }
    }

    fn allocate(&mut self, target: i64) {
        self.status["allocatedResources"] = json!({ "storage": quantity::text(target) });
    }

    fn stage(&mut self, stage: Stage) {
        self.status["allocatedResourceStatuses"] = json!({ "storage": stage.text() });
    }

    fn annotate(&mut self, value: Value) {
        let mut annotations = Map::new();
        annotations.insert(NODE_EXPANSION_NOT_REQUIRED.to_owned(), value);
        self.metadata
            .insert("annotations".to_owned(), Value::Object(annotations));
    }

    /// Nothing is written if somebody changed the claim since it was read.
    fn checked(mut self) -> Value {
        let version = json!(self.claim.version);
        self.metadata.insert("resourceVersion".to_owned(), version);
        self.unchecked()
    }

    fn unchecked(mut self) -> Value {
        if !self.conditions.is_empty() {
            self.status["conditions"] = Value::Array(self.conditions);
        }
        json!({ "metadata": self.metadata, "status": self.status })
    }
}
