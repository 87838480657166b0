use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::driver::Kind;
use crate::driver_deployment::apply::Applied;
use crate::driver_deployment::drain::Drained;
use crate::writer::{Key, Objects};

/// An instance of generation 2, of which generation 1 was put into effect.
fn instance() -> CSIDriverDeployment {
    let condition =
        |about: &str| json!({"type": about, "status": "True", "reason": "Old", "message": "old"});
    serde_json::from_value(json!({
        "apiVersion": "csidriver.storage.openshift.io/v1alpha1",
        "kind": "CSIDriverDeployment",
        "metadata": {"name": "i", "namespace": "n", "uid": "1", "generation": 2},
        "spec": {
            "driverName": "new.example", "driverPerNodeTemplate": {}, "driverSocket": "/csi/s",
            "nodeUpdateStrategy": "Rolling",
        },
        "status": {
            "observedGeneration": 1, "state": "Managed", "nodes": "3/3", "message": "old",
            "driverName": "old.example", "firstPort": 9812, "drain": {"progress": "1/3", "nodes": []},
            "conditions": [condition("Available"), condition("SyncSuccessful"), condition("Progressing")],
        },
    }))
    .unwrap()
}

fn daemon_set() -> Objects {
    let object: DynamicObject = serde_json::from_value(json!({
        "metadata": {"name": "i-node", "namespace": "n", "generation": 1, "uid": "2"},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 2},
    }))
    .unwrap();
    Objects::from([(Key::of(Kind::DaemonSet, &object), object)])
}

fn synced(problems: Vec<Problem>, is_seen: bool) -> Outcome {
    let applied = Applied {
        is_complete: true,
        ..Applied::nothing(daemon_set(), problems)
    };
    let observation = is_seen.then(|| Observation::of(&applied, 0));
    Outcome::Synced(Box::new(Synced {
        applied,
        warnings: Vec::new(),
        observation,
        drained: Drained::default(),
        first_port: None,
    }))
}

fn conflict() -> Problem {
    Problem {
        is_conflict: true,
        ..Problem::unreadable("x")
    }
}

/// The status after an outcome as JSON, conditions as `type status reason`.
fn told(outcome: &Outcome) -> Value {
    let Some(status) = status_after(&instance(), outcome) else {
        return Value::Null;
    };
    let shown = status.conditions.iter().flatten().map(|it| {
        let reason = it.reason.as_deref().unwrap_or_default();
        format!("{} {:?} {reason}", it.type_, it.status)
    });
    let conditions: Vec<_> = shown.collect();
    let children = status.children.iter().flatten().map(|it| &it.name);
    json!({
        "state": status.state, "generation": status.observed_generation, "nodes": status.nodes,
        "driver": status.driver_name, "port": status.first_port, "conditions": conditions,
        "children": children.collect::<Vec<_>>(), "drain": status.drain.map(|it| it.progress),
    })
}

#[test]
fn what_was_not_looked_at_stays_as_it_was() {
    let before = json!({
        "state": "Managed", "generation": 1, "nodes": "3/3", "driver": "old.example", "port": 9812, "children": [],
        "drain": "1/3",
        "conditions": ["Available True Old", "SyncSuccessful True Old", "Progressing True Old"],
    });
    let changed = |changes: Value| {
        let mut expected = before.clone();
        for (key, value) in changes.as_object().unwrap() {
            expected[key] = value.clone();
        }
        expected
    };
    let unreadable = || vec![Problem::unreadable("x")];
    let failed = json!([
        "SyncSuccessful False Unreadable",
        "Available True Old",
        "Progressing True Old"
    ]);
    // Nodes that were let go are waited for no longer.
    let let_go = json!(["SyncSuccessful False Unreadable", "Available True Old"]);
    for (outcome, expected) in [
        (
            Outcome::Unmanaged,
            changed(json!({
                "state": "Unmanaged", "drain": null,
                "conditions": ["Available True Old", "SyncSuccessful True Old"],
            })),
        ),
        (
            Outcome::Unseen(unreadable()),
            changed(json!({"conditions": failed})),
        ),
        (
            Outcome::Stopped(unreadable()),
            changed(json!({"conditions": let_go, "drain": null})),
        ),
        (
            Outcome::Held(unreadable()),
            changed(json!({"state": "Removed", "conditions": let_go, "drain": null})),
        ),
        (
            synced(unreadable(), false),
            changed(json!({
                "drain": null, "conditions": failed, "driver": "new.example", "port": null, "children": ["i-node"],
            })),
        ),
        (synced(vec![conflict()], false), Value::Null),
        (Outcome::Released, Value::Null),
        (
            Outcome::Failed(Error::LinesCodecMaxLineLengthExceeded),
            Value::Null,
        ),
    ] {
        assert_eq!(told(&outcome), expected);
    }
}

#[test]
fn a_generation_counts_as_observed_once_there_is_no_problem() {
    let done = told(&synced(Vec::new(), true));
    assert_eq!(
        done,
        json!({
            "state": "Managed", "generation": 2, "nodes": "0/2", "driver": "new.example", "port": null,
            "children": ["i-node"], "drain": null,
            "conditions": [
                "Available False NodesNotReady", "SyncSuccessful True Synced", "Progressing True RollingOut",
            ],
        })
    );
    let failed = told(&synced(vec![Problem::unreadable("x"), conflict()], true));
    assert_eq!(failed["generation"], 1);
    assert_eq!(failed["conditions"][1], "SyncSuccessful False Unreadable");
    // What a driver's pods are to look like may be in effect all the same.
    let workloads = |outcome: &Outcome| {
        let status = status_after(&instance(), outcome);
        status.unwrap().workloads_generation
    };
    let mut partly = synced(vec![Problem::unreadable("x")], true);
    assert_eq!(workloads(&partly), None);
    if let Outcome::Synced(synced) = &mut partly {
        synced.applied.has_workloads = true;
    }
    assert_eq!(workloads(&partly), Some(2));
    assert_eq!(workloads(&synced(Vec::new(), true)), None);
}

#[test]
fn only_what_time_may_heal_is_tried_again() {
    let claimed = || Problem::claimed("d", "n/other");
    for (outcome, is_final) in [
        (Outcome::Unmanaged, true),
        (Outcome::Released, true),
        (Outcome::Held(vec![Problem::unreadable("x")]), false),
        (
            Outcome::Failed(Error::LinesCodecMaxLineLengthExceeded),
            false,
        ),
        (Outcome::Unseen(vec![Problem::unreadable("x")]), true),
        (Outcome::Unseen(vec![claimed()]), false),
        (Outcome::Stopped(vec![Problem::unreadable("x")]), true),
        (Outcome::Stopped(vec![claimed()]), false),
        (synced(Vec::new(), true), true),
        (
            synced(vec![Problem::unreadable("x"), claimed()], true),
            false,
        ),
    ] {
        assert_eq!(outcome.is_final(), is_final, "{:?}", outcome.problems());
    }
}
