//! From every state the steps lead to the right one, and a finished object stays as it is.

use serde_json::json;

use super::*;

const NEW: Observed<'_> = Observed {
    held: false,
    deleting: false,
    retain: false,
    name: "s",
    array: "",
    id: "",
    volume: Ok(()),
    found: None,
    asked: false,
};

fn snapshot(name: &str, status: &str) -> ArraySnapshot {
    let snapshot = json!({"name": "snap-1", "display_name": name, "status": status});
    serde_json::from_value(snapshot).unwrap()
}

fn word(step: &Step) -> String {
    match step {
        Step::Record(state, reason) => format!("{state}/{}", reason.word),
        step => format!("{step:?}"),
    }
}

#[test]
fn a_new_snapshot_is_located_and_then_taken_once() {
    let good = snapshot("s", "normal");
    let held = Observed { held: true, ..NEW };
    let located = Observed { array: "a", ..held };
    let nothing = Observed {
        found: Some(Found::Nothing),
        ..located
    };
    let asked = Observed {
        asked: true,
        ..nothing
    };
    let there = Observed {
        found: Some(Found::Snapshot(&good)),
        ..located
    };
    for (observed, expected) in [
        (NEW, "Hold"),
        (held, "Locate"),
        (located, "Ask"),
        (nothing, "Take"),
        (asked, "TakingSnapshot/TakingSnapshot"),
        (there, "Ready/Ready"),
    ] {
        assert_eq!(word(&next_step(&observed)), expected, "{observed:?}");
    }
}

#[test]
fn what_stands_in_the_way_is_said() {
    let (other, busy, bad) = (
        snapshot("other", "normal"),
        snapshot("s", "creating"),
        snapshot("s", "failed"),
    );
    let held = Observed {
        held: true,
        array: "a",
        ..NEW
    };
    let found = |found| Observed {
        found: Some(found),
        ..held
    };
    let gone = Observed {
        id: "snap-1",
        ..found(Found::Nothing)
    };
    let no_volume = Observed {
        array: "",
        volume: Err("it is not there"),
        ..held
    };
    for (observed, expected) in [
        (no_volume, "Creating/NoVolume"),
        (found(Found::Foreign(&other)), "Failed/NameTaken"),
        (found(Found::Snapshot(&other)), "Rename"),
        (
            found(Found::Snapshot(&busy)),
            "TakingSnapshot/TakingSnapshot",
        ),
        (found(Found::Snapshot(&bad)), "Failed/Unhealthy"),
        (gone, "Failed/Missing"),
    ] {
        assert_eq!(word(&next_step(&observed)), expected, "{observed:?}");
    }
}

#[test]
fn a_snapshot_is_deleted_before_its_object_goes_unless_it_is_retained() {
    let good = snapshot("s", "normal");
    let leaving = Observed {
        held: true,
        deleting: true,
        array: "a",
        ..NEW
    };
    let there = Observed {
        found: Some(Found::Snapshot(&good)),
        ..leaving
    };
    let retained = Observed {
        retain: true,
        ..there
    };
    for (observed, expected) in [
        (
            Observed {
                held: false,
                ..leaving
            },
            "Rest",
        ),
        (
            Observed {
                array: "",
                ..leaving
            },
            "LetGo",
        ),
        (leaving, "Ask"),
        (there, "Delete"),
        (
            Observed {
                found: Some(Found::Nothing),
                ..leaving
            },
            "LetGo",
        ),
        (
            Observed {
                found: Some(Found::Foreign(&good)),
                ..leaving
            },
            "LetGo",
        ),
        (retained, "LetGo"),
    ] {
        assert_eq!(word(&next_step(&observed)), expected, "{observed:?}");
    }
    // A record is never held, never renamed, never deleted, never taken.
    let record = Observed {
        held: false,
        deleting: false,
        ..retained
    };
    assert_eq!(word(&next_step(&record)), "Rest");
}
