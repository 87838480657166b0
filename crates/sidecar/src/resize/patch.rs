//! What is written to claims and volumes. Pure.
//!
//! Patches of claims are strategic: they name the conditions that they set or remove, and leave everybody else's alone.

use serde_json::{Map, Value, json};
use stowage_api::quantity;
use stowage_kubernetes::events;

use super::progress::{
    CONTROLLER_RESIZE_ERROR, FILE_SYSTEM_RESIZE_PENDING, NODE_EXPANSION_NOT_REQUIRED, Progress,
    RESIZE_CONDITIONS, RESIZING, Stage,
};
use super::step::Grown;
use crate::cluster::volume::{PRE_RESIZE_CAPACITY, Volume};
use crate::objects;

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
    // Once a claim has all of its volume, what it had before that is of no use for the next step of its node.
    let followed = claim.capacity >= volume.size;
    let remember = grown.on_node && (!volume.grew || followed);
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
        let value = objects::condition(condition, None, message);
        self.conditions.push(value);
    }

    fn remove(&mut self, condition: &'static str) {
        if self.claim.has(condition) {
            self.conditions.push(objects::no_condition(condition));
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

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;

    fn claim() -> Progress {
        Progress {
            uid: "u".to_owned(),
            version: "7".to_owned(),
            requested: 2 * GIB,
            capacity: GIB,
            capacity_text: "1Gi".to_owned(),
            ..Progress::default()
        }
    }

    /// The types of conditions that a patch sets, and those that it removes.
    fn conditions(patch: &Value) -> (Vec<&str>, Vec<&str>) {
        let all = patch["status"]["conditions"].as_array();
        let all = all.map(Vec::as_slice).unwrap_or_default();
        let of = |removed: bool| {
            let kind = move |one: &'_ &Value| one["$patch"].is_string() == removed;
            let of = all.iter().filter(kind);
            of.map(|one| one["type"].as_str().unwrap()).collect()
        };
        (of(false), of(true))
    }

    #[test]
    fn old_servers_get_no_fields_that_they_would_drop() {
        let old = Record::ConditionsOnly;
        let mut claim = claim();
        let begun = begun(&claim, 2 * GIB, old).unwrap();
        let handed = handed_over(&claim, 2 * GIB, old);
        claim.stage = Stage::None;
        let failed = failed(&claim, "no", true, old).unwrap();
        for patch in [begun, handed, failed, finished(&claim, 2 * GIB)] {
            let text = patch.to_string();
            assert!(!text.contains("allocatedResource"), "{text}");
        }
    }

    #[test]
    fn a_claim_is_marked_once_per_size() {
        let mut claim = claim();
        let first = begun(&claim, 2 * GIB, Record::Fields).unwrap();
        assert_eq!(first["metadata"]["resourceVersion"], "7");
        assert_eq!(first["status"]["allocatedResources"]["storage"], "2Gi");
        let stages = &first["status"]["allocatedResourceStatuses"];
        assert_eq!(stages["storage"], "ControllerResizeInProgress");
        assert_eq!(conditions(&first), (vec![RESIZING], vec![]));

        claim.conditions.push((RESIZING, String::new()));
        claim.allocated = Some(2 * GIB);
        for stage in [Stage::ControllerInProgress, Stage::ControllerInfeasible] {
            claim.stage = stage;
            assert_eq!(begun(&claim, 2 * GIB, Record::Fields), None);
        }
        let error = (CONTROLLER_RESIZE_ERROR, "no".to_owned());
        claim.conditions.push(error);
        let other = begun(&claim, 3 * GIB, Record::Fields).unwrap();
        let expected = (vec![], vec![CONTROLLER_RESIZE_ERROR]);
        assert_eq!(conditions(&other), expected);
        assert_eq!(begun(&claim, 3 * GIB, Record::ConditionsOnly), None);
    }

    #[test]
    fn the_node_gets_its_turn_and_the_other_conditions_go() {
        let mut claim = claim();
        claim.conditions.push((RESIZING, String::new()));
        claim
            .conditions
            .push((FILE_SYSTEM_RESIZE_PENDING, String::new()));
        let patch = handed_over(&claim, 2 * GIB, Record::Fields);
        let expected = (vec![FILE_SYSTEM_RESIZE_PENDING], vec![RESIZING]);
        assert_eq!(conditions(&patch), expected);
        let stages = &patch["status"]["allocatedResourceStatuses"];
        assert_eq!(stages["storage"], "NodeResizePending");
    }

    #[test]
    fn the_end_leaves_nothing_but_the_size() {
        let mut claim = claim();
        claim.stage = Stage::ControllerInProgress;
        claim.conditions.push((RESIZING, String::new()));
        let patch = finished(&claim, 2 * GIB);
        assert_eq!(conditions(&patch), (vec![], vec![RESIZING]));
        assert_eq!(patch["status"]["capacity"]["storage"], "2Gi");
        let stages = &patch["status"]["allocatedResourceStatuses"];
        assert!(stages.as_object().unwrap()["storage"].is_null());
        let annotations = &patch["metadata"]["annotations"];
        assert_eq!(annotations[NODE_EXPANSION_NOT_REQUIRED], "true");
    }

    #[test]
    fn what_the_claim_had_is_noted_once_for_each_step_of_its_node() {
        let wire = json!({
            "metadata": {"name": "v", "uid": "v", "annotations": {PRE_RESIZE_CAPACITY: "1Gi"}},
            "spec": {"capacity": {"storage": "2Gi"}, "csi": {"driver": "d", "volumeHandle": "h"}},
        });
        let volume = Volume::read(serde_json::from_value(wire).unwrap(), "d").unwrap();
        let grown = Grown {
            size: 3 * GIB,
            on_node: true,
        };
        let mut claim = claim();
        let noted = |claim: &Progress| {
            let patch = volume_grown(&volume, claim, grown).unwrap();
            patch["metadata"]["annotations"][PRE_RESIZE_CAPACITY].clone()
        };
        assert_eq!(noted(&claim), Value::Null, "the node has yet to follow");
        (claim.capacity, claim.capacity_text) = (2 * GIB, "2Gi".to_owned());
        assert_eq!(noted(&claim), "2Gi", "it has followed");
    }

    #[test]
    fn the_same_error_is_written_once() {
        let mut claim = claim();
        let patch = failed(&claim, "no", true, Record::Fields).unwrap();
        let stages = &patch["status"]["allocatedResourceStatuses"];
        assert_eq!(stages["storage"], "ControllerResizeInfeasible");
        let error = (CONTROLLER_RESIZE_ERROR, "no".to_owned());
        claim.conditions.push(error);
        assert!(failed(&claim, "no", true, Record::Fields).is_some());
        assert_eq!(failed(&claim, "no", true, Record::ConditionsOnly), None);
        claim.stage = Stage::ControllerInfeasible;
        assert_eq!(failed(&claim, "no", true, Record::Fields), None);
        assert!(failed(&claim, "other", true, Record::Fields).is_some());
    }
}
