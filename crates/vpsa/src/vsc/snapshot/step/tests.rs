//! From every state the steps lead to the right one, and a finished object stays as it is.

use serde_json::json;

use super::*;
use crate::vsc::worlds::{Luck, Lucks, World, settle};

const NEW: Observed<'_> = Observed {
    held: false,
    deleting: false,
    retain: false,
    name: "s",
    array: "",
    id: "",
    group: "",
    volume: Ok(()),
    found: None,
    asked: false,
    pending: false,
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
                found: Some(Found::Nothing),
                pending: true,
                ..leaving
            },
            "Deleting/TakingSnapshot",
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

/// How many looks it takes until what the array takes is seen, and how many until it is certain that nothing comes.
const SEEN_AFTER: u8 = 2;
const CERTAIN_AFTER: u8 = 4;

/// The object and the array, and what steps do to them.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
struct Whole {
    held: bool,
    deleting: bool,
    /// Somebody deletes it after so many looks.
    deleted_after: Option<u8>,
    array: &'static str,
    id: &'static str,
    /// What the array has, and how many looks it takes until it is seen.
    snapshot: Option<ArraySnapshot>,
    seen_after: u8,
    /// So many looks ago the array was asked.
    asked_ago: Option<u8>,
    /// Somebody else has the name.
    is_taken: bool,
    known: bool,
    asked: bool,
    state: Option<SnapshotState>,
    taken: usize,
    gone: bool,
}

impl Whole {
    fn found(&self) -> Found<'_> {
        let seen = self.snapshot.as_ref().filter(|_| self.seen_after == 0);
        match seen {
            Some(snapshot) if self.is_taken => Found::Foreign(snapshot),
            Some(snapshot) => Found::Snapshot(snapshot),
            None => Found::Nothing,
        }
    }
}

impl World for Whole {
    type Step = Step;

    fn next(&self) -> Option<Step> {
        let step = next_step(&Observed {
            held: self.held,
            deleting: self.deleting,
            array: self.array,
            id: self.id,
            found: self.known.then(|| self.found()),
            asked: self.asked,
            pending: self.asked_ago.is_some_and(|looks| looks < CERTAIN_AFTER),
            ..NEW
        });
        (!self.gone && step != Step::Rest).then_some(step)
    }

    fn act(&mut self, step: &Step, luck: Luck) {
        let is_told = luck == Luck::Done && *step == Step::Ask;
        let is_known = std::mem::replace(&mut self.known, is_told);
        self.asked |= *step == Step::Take;
        if luck == Luck::Failed {
            return;
        }
        match step {
            Step::Hold => self.held = true,
            Step::Locate => self.array = "a",
            Step::Take => {
                self.asked_ago = Some(0);
                if self.snapshot.is_none() {
                    self.snapshot = Some(snapshot("s", "creating"));
                    self.seen_after = SEEN_AFTER;
                    self.taken += 1;
                }
            }
            Step::Rename => self.snapshot = Some(snapshot("s", "normal")),
            Step::Delete => (self.id, self.snapshot) = ("snap-1", None),
            Step::Record(state, _) => {
                if is_known && matches!(self.found(), Found::Snapshot(_)) {
                    self.id = "snap-1";
                }
                self.state = Some(state.clone());
            }
            Step::LetGo => self.gone = true,
            Step::Ask | Step::Rest => {}
        }
    }

    /// Time goes by with every look.
    fn rest(&mut self) {
        (self.known, self.asked) = (false, false);
        self.asked_ago = self
            .asked_ago
            .map(|looks| looks.saturating_add(1).min(CERTAIN_AFTER));
        self.seen_after = self.seen_after.saturating_sub(1);
        if let Some(snapshot) = self.snapshot.as_mut().filter(|_| self.seen_after == 0) {
            snapshot.status = "normal".to_owned();
        }
        self.deleted_after = match self.deleted_after {
            Some(0) => {
                self.deleting = true;
                None
            }
            later => later.map(|looks| looks - 1),
        };
    }

    fn is_record(step: &Step) -> bool {
        matches!(step, Step::Record(..))
    }

    fn asks(step: &Step) -> bool {
        *step == Step::Ask
    }
}

/// Where a snapshot can be before we look at it for the first time: array, identity, and what the array has.
fn places() -> [(&'static str, &'static str, Option<ArraySnapshot>); 6] {
    [
        ("", "", None),
        ("a", "", None),
        ("a", "", Some(snapshot("s", "creating"))),
        ("a", "snap-1", Some(snapshot("s", "normal"))),
        ("a", "snap-1", Some(snapshot("old", "normal"))),
        ("a", "snap-1", None),
    ]
}

#[test]
fn from_any_state_and_whatever_fails_a_snapshot_is_taken_once_or_leaves_no_trace() {
    for (array, id, there) in places() {
        for (held, deleting) in [(false, false), (true, false), (true, true), (false, true)] {
            let start = Whole {
                held,
                deleting,
                array,
                id,
                snapshot: there.clone(),
                ..Whole::default()
            };
            for lucks in Lucks::all() {
                let end = settle(&start, lucks);
                let told = format!("{lucks:?}: {start:?} became {end:?}");
                let is_missing = !id.is_empty() && there.is_none();
                if deleting && !held {
                    assert!(!end.gone && end.taken == 0, "it is not ours: {told}");
                } else if deleting {
                    assert!(end.gone && end.snapshot.is_none(), "{told}");
                } else if is_missing {
                    assert_eq!(end.state, Some(SnapshotState::Failed), "{told}");
                } else {
                    assert_eq!(end.state, Some(SnapshotState::Ready), "{told}");
                    let all = end.taken + usize::from(there.is_some());
                    assert_eq!((all, end.id), (1, "snap-1"), "{told}");
                    assert_eq!(end.snapshot, Some(snapshot("s", "normal")), "{told}");
                }
            }
        }
    }
}

#[test]
fn a_snapshot_of_another_group_is_taken_for_another_and_not_deleted() {
    for (recorded, shown, expected) in [
        ("cg-1", "cg-1", "Delete"),
        ("cg-1", "cg-2", "Deleting/OtherSnapshot"),
        ("", "cg-2", "Delete"),
    ] {
        let found = ArraySnapshot {
            cg: shown.parse().ok(),
            ..snapshot("s", "normal")
        };
        let observed = Observed {
            held: true,
            deleting: true,
            array: "a",
            id: "snap-1",
            group: recorded,
            found: Some(Found::Snapshot(&found)),
            ..NEW
        };
        assert_eq!(word(&next_step(&observed)), expected);
    }
}

#[test]
fn whenever_a_snapshot_is_deleted_and_whatever_fails_nothing_of_it_is_left() {
    for (array, id, there) in places() {
        for looks in 0..6 {
            for is_taken in [false, there.is_some() && id.is_empty()] {
                let start = Whole {
                    held: true,
                    deleted_after: Some(looks),
                    array,
                    id,
                    snapshot: there.clone(),
                    is_taken,
                    ..Whole::default()
                };
                for lucks in Lucks::all() {
                    let end = settle(&start, lucks);
                    let told = format!("{lucks:?}: {start:?} became {end:?}");
                    // What somebody else took stays.
                    let left = usize::from(is_taken);
                    assert_eq!(usize::from(end.snapshot.is_some()), left, "{told}");
                    assert!(end.gone, "{told}");
                }
            }
        }
    }
}
