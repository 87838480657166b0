use super::*;

const GIB: i64 = 1 << 30;

/// A claim of 1 GiB that asks for `requested` GiB, `allocated` of which are under way.
fn claim(requested: i64, allocated: i64, stage: Stage) -> Progress {
    Progress {
        requested: requested * GIB,
        capacity: GIB,
        allocated: (allocated != 0).then_some(allocated * GIB),
        stage,
        ..Progress::default()
    }
}

fn pending(mut claim: Progress) -> Progress {
    let waits = (FILE_SYSTEM_RESIZE_PENDING, String::new());
    claim.conditions.push(waits);
    claim
}

fn step(claim: &Progress, size: i64, last_call: Option<LastCall>) -> Step {
    next_step(Mode::Controller, claim, size * GIB, false, last_call)
}

#[test]
fn who_has_what_he_asks_for_rests() {
    let satisfied = claim(1, 0, Stage::None);
    assert_eq!(step(&satisfied, 1, None), Step::Rest);
    let asks = |mode| next_step(mode, &satisfied, GIB, true, None);
    for mode in [Mode::Controller, Mode::NodeOnly, Mode::Nobody] {
        assert_eq!(asks(mode), Step::Tidy, "{mode:?}");
    }
    // The volume is larger than the claim knows: its filesystem has yet to follow.
    let step = next_step(Mode::Controller, &satisfied, 2 * GIB, true, None);
    assert_eq!(step, Step::Rest);
}

#[test]
fn the_driver_decides_who_works() {
    let asks = claim(2, 0, Stage::None);
    for (mode, expected) in [
        (Mode::Controller, Step::Expand(2 * GIB)),
        (Mode::NodeOnly, Step::HandOver(2 * GIB)),
        (Mode::Nobody, Step::Refuse),
    ] {
        assert_eq!(next_step(mode, &asks, GIB, false, None), expected);
    }
}

#[test]
fn with_conditions_only_the_request_is_the_target() {
    let asks = claim(3, 0, Stage::None);
    assert_eq!(step(&asks, 1, None), Step::Expand(3 * GIB));
    // The volume grew, and whoever had it grow died before he could say who is next.
    assert_eq!(step(&asks, 3, None), Step::Expand(3 * GIB));
    assert_eq!(step(&pending(asks.clone()), 3, None), Step::Rest);
    // More is asked for while the node works on less.
    assert_eq!(step(&pending(asks), 2, None), Step::Expand(3 * GIB));
}

#[test]
fn a_call_whose_end_is_unknown_is_made_again_as_it_was() {
    let raised = claim(3, 0, Stage::None);
    let open = Some(LastCall::Open(2 * GIB));
    assert_eq!(step(&raised, 1, open), Step::Expand(2 * GIB));
    assert_eq!(
        step(&raised, 1, Some(LastCall::Refused)),
        Step::Expand(3 * GIB)
    );
}

#[test]
fn what_has_begun_is_finished_first() {
    use Stage::{
        ControllerInProgress, ControllerInfeasible, NodeInProgress, NodeInfeasible, NodePending,
    };
    let expand = |size| Step::Expand(size * GIB);
    for (requested, allocated, stage, size, last_call, expected) in [
        // Raised from 2 to 3 while 2 is under way.
        (3, 2, ControllerInProgress, 1, None, expand(2)),
        (
            3,
            2,
            ControllerInProgress,
            1,
            Some(LastCall::Open(2 * GIB)),
            expand(2),
        ),
        (
            3,
            2,
            ControllerInProgress,
            1,
            Some(LastCall::Refused),
            expand(3),
        ),
        (3, 2, ControllerInfeasible, 1, None, expand(3)),
        (3, 2, NodePending, 2, None, Step::Rest),
        (3, 2, NodeInProgress, 2, None, Step::Rest),
        (3, 2, NodePending, 1, None, expand(2)),
        (3, 2, NodeInfeasible, 2, None, expand(2)),
        (3, 2, Stage::None, 1, None, expand(3)),
        // Lowered from 5 to 2 after 5 turned out to be too much.
        (2, 5, ControllerInfeasible, 1, None, expand(2)),
        (
            2,
            5,
            ControllerInProgress,
            1,
            Some(LastCall::Refused),
            expand(2),
        ),
        // The last_call of 5 is unknown: only the driver can tell.
        (2, 5, ControllerInProgress, 1, None, expand(5)),
        // Lowered after the volume grew: what is done is done.
        (2, 5, ControllerInProgress, 5, None, expand(5)),
        (2, 5, ControllerInfeasible, 5, None, expand(5)),
        (2, 5, NodePending, 5, None, Step::Rest),
        (2, 5, NodeInProgress, 5, None, Step::Rest),
        (2, 5, NodeInfeasible, 5, None, expand(5)),
        (2, 5, Stage::None, 5, None, expand(5)),
    ] {
        let claim = claim(requested, allocated, stage);
        assert_eq!(
            step(&claim, size, last_call),
            expected,
            "{claim:?} {size} {last_call:?}"
        );
    }
}

#[test]
fn a_node_that_cannot_follow_is_asked_for_what_is_wanted_now() {
    let lowered = claim(2, 5, Stage::NodeInfeasible);
    let step = next_step(Mode::NodeOnly, &lowered, 5 * GIB, true, None);
    assert_eq!(step, Step::HandOver(2 * GIB));
}

#[test]
fn an_answer_is_believed_unless_it_is_less_than_was_asked_for() {
    let answer = |capacity_bytes| ControllerExpandVolumeResponse {
        capacity_bytes,
        node_expansion_required: true,
    };
    for (made, expected) in [(0, 2 * GIB), (2 * GIB, 2 * GIB), (3 * GIB, 3 * GIB)] {
        let size = grown(&answer(made), 2 * GIB).map(|grown| grown.size);
        assert_eq!(size, Ok(expected));
    }
    assert!(grown(&answer(GIB), 2 * GIB).is_err());
}

#[test]
fn codes_mean_what_upstream_takes_them_for() {
    for (code, expected) in [
        (Code::DeadlineExceeded, Refusal::Open),
        (Code::ResourceExhausted, Refusal::Open),
        (Code::Aborted, Refusal::Open),
        (Code::FailedPrecondition, Refusal::InUse),
        (Code::OutOfRange, Refusal::Infeasible),
        (Code::InvalidArgument, Refusal::Infeasible),
        (Code::NotFound, Refusal::Infeasible),
        (Code::Internal, Refusal::Final),
        (Code::Unimplemented, Refusal::Final),
    ] {
        assert_eq!(Refusal::of(code), expected);
    }
}

/// What the Go resizer leaves on servers that have the fields of expansions.
fn left_by_upstream(allocated: &str, stage: &str, condition: &str) -> Progress {
    let claim = serde_json::json!({
        "metadata": {
            "name": "data", "namespace": "shop", "uid": "u", "resourceVersion": "7",
            "annotations": {"volume.kubernetes.io/node-expansion-not-required": "true"},
        },
        "spec": {"resources": {"requests": {"storage": "3Gi"}}},
        "status": {
            "phase": "Bound",
            "capacity": {"storage": "1Gi"},
            "allocatedResources": {"storage": allocated},
            "allocatedResourceStatuses": {"storage": stage},
            "conditions": [{
                "type": condition,
                "status": "True",
                "lastProbeTime": null,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    Progress::read(&serde_json::from_value(claim).unwrap()).unwrap()
}

#[test]
fn what_upstream_has_begun_is_gone_on_with_where_the_server_keeps_the_stage() {
    for (allocated, stage, condition, size, expected) in [
        // Nobody knows how the call for 2 ended: it is made again before that for 3.
        (
            "2Gi",
            "ControllerResizeInProgress",
            "Resizing",
            1,
            Step::Expand(2 * GIB),
        ),
        // An answer that stays the same: what is wanted now may do better.
        (
            "2Gi",
            "ControllerResizeInfeasible",
            "ControllerResizeError",
            1,
            Step::Expand(3 * GIB),
        ),
        // The node is at work, and finishes first.
        (
            "2Gi",
            "NodeResizePending",
            "FileSystemResizePending",
            2,
            Step::Rest,
        ),
        ("2Gi", "NodeResizeInProgress", "Resizing", 2, Step::Rest),
        // The node is done; more was asked for meanwhile.
        ("2Gi", "", "Resizing", 1, Step::Expand(3 * GIB)),
    ] {
        let claim = left_by_upstream(allocated, stage, condition);
        assert_eq!(step(&claim, size, None), expected, "{stage}");
    }
}
