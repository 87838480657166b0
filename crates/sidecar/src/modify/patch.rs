//! What is written to claims and volumes. Pure.

use serde_json::{Map, Value, json};

use super::step::{MODIFY_ERROR, MODIFYING, Progress, Stage};
use crate::cluster::volume::Volume;
use crate::objects;

/// The class is missing. `None`: the claim says so already.
pub(super) fn pending(claim: &Progress, target: &str) -> Option<Value> {
    let said = is(claim, target, Stage::Pending);
    (!said).then(|| write(claim, true, status(target, Stage::Pending), vec![]))
}

/// The driver is about to be called. `None`: the claim says so already.
pub(super) fn begun(claim: &Progress, target: &str) -> Option<Value> {
    if is(claim, target, Stage::InProgress) && claim.message(MODIFYING).is_some() {
        return None;
    }
    let text = "ModifyVolume operation in progress.";
    let mut conditions = vec![objects::condition(MODIFYING, None, Some(text))];
    conditions.extend(end(claim, MODIFY_ERROR));
    Some(write(
        claim,
        true,
        status(target, Stage::InProgress),
        conditions,
    ))
}

/// The driver said no, or nothing. `None`: the claim says so already.
pub(super) fn failed(
    claim: &Progress,
    target: &str,
    code: &str,
    message: &str,
    infeasible: bool,
) -> Option<Value> {
    let stage = if infeasible {
        Stage::Infeasible
    } else {
        Stage::InProgress
    };
    let text = format!("ModifyVolume failed with error: {message}. Waiting for retry.");
    if is(claim, target, stage) && claim.message(MODIFY_ERROR) == Some(&text) {
        return None;
    }
    let mut conditions = vec![objects::condition(MODIFY_ERROR, Some(code), Some(&text))];
    conditions.extend(end(claim, MODIFYING));
    // It may be late, but it is true of this very claim.
    Some(write(claim, false, status(target, stage), conditions))
}

/// The volume has the class.
pub(super) fn completed(claim: &Progress, target: &str) -> Value {
    let mut status = none();
    status.insert("currentVolumeAttributesClassName".to_owned(), json!(target));
    write(claim, false, status, both_end(claim))
}

/// The change is not wanted any more.
pub(super) fn cancelled(claim: &Progress) -> Value {
    write(claim, true, none(), both_end(claim))
}

/// The volume's object names the class. `None`: it does so already.
pub(super) fn volume_modified(volume: &Volume, target: &str) -> Option<Value> {
    let named = volume.attributes_class.as_deref() == Some(target);
    (!named).then(|| {
        json!({
            "metadata": { "uid": volume.uid },
            "spec": { "volumeAttributesClassName": target },
        })
    })
}

fn is(claim: &Progress, target: &str, stage: Stage) -> bool {
    let begun = claim.begun.as_ref();
    begun.is_some_and(|begun| begun.target == target && begun.stage == stage)
}

fn status(target: &str, stage: Stage) -> Map<String, Value> {
    let value = json!({
        "targetVolumeAttributesClassName": target,
        "status": stage.text(),
    });
    Map::from_iter([("modifyVolumeStatus".to_owned(), value)])
}

fn none() -> Map<String, Value> {
    Map::from_iter([("modifyVolumeStatus".to_owned(), Value::Null)])
}

fn end(claim: &Progress, condition: &str) -> Option<Value> {
    let there = claim.message(condition).is_some();
    there.then(|| objects::no_condition(condition))
}

fn both_end(claim: &Progress) -> Vec<Value> {
    let both = [MODIFYING, MODIFY_ERROR].into_iter();
    both.filter_map(|kind| end(claim, kind)).collect()
}

/// With `checked`, nothing is written if somebody changed the claim since it was read.
fn write(
    claim: &Progress,
    checked: bool,
    mut status: Map<String, Value>,
    conditions: Vec<Value>,
) -> Value {
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    let mut metadata = json!({ "uid": claim.uid });
    if checked {
        metadata["resourceVersion"] = json!(claim.version);
    }
    json!({ "metadata": metadata, "status": status })
}

#[cfg(test)]
mod tests {
    use super::super::step::Begun;
    use super::*;

    #[test]
    fn what_a_claim_says_already_is_not_written_again() {
        let mut claim = Progress {
            version: "3".to_owned(),
            ..Progress::default()
        };
        let first = begun(&claim, "gold").unwrap();
        assert_eq!(first["metadata"]["resourceVersion"], "3");
        assert_eq!(
            first["status"]["modifyVolumeStatus"]["status"],
            "InProgress"
        );
        claim.begun = Some(Begun {
            target: "gold".to_owned(),
            stage: Stage::InProgress,
        });
        claim.conditions = vec![(MODIFYING.to_owned(), String::new())];
        assert_eq!(begun(&claim, "gold"), None);
        assert!(begun(&claim, "lead").is_some());

        let error = failed(&claim, "gold", "Internal", "no", false).unwrap();
        let conditions = error["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions[0]["reason"], "Internal");
        assert_eq!(conditions[1], objects::no_condition(MODIFYING));
        let text = conditions[0]["message"].as_str().unwrap().to_owned();
        claim.conditions = vec![(MODIFY_ERROR.to_owned(), text)];
        assert_eq!(failed(&claim, "gold", "Internal", "no", false), None);
        let stage = &failed(&claim, "gold", "Internal", "no", true).unwrap()["status"];
        assert_eq!(stage["modifyVolumeStatus"]["status"], "Infeasible");
    }

    #[test]
    fn the_end_leaves_nothing_but_the_class() {
        let claim = Progress {
            conditions: vec![(MODIFY_ERROR.to_owned(), String::new())],
            ..Progress::default()
        };
        let done = completed(&claim, "gold");
        assert_eq!(done["status"]["currentVolumeAttributesClassName"], "gold");
        let status = done["status"].as_object().unwrap();
        assert!(status["modifyVolumeStatus"].is_null());
        assert_eq!(
            status["conditions"],
            json!([objects::no_condition(MODIFY_ERROR)])
        );
        assert!(cancelled(&claim)["status"]["modifyVolumeStatus"].is_null());
    }
}
