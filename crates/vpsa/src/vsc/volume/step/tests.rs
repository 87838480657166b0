//! Steps in a world where every call can fail: they lead to the same end, and nothing is made twice.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::vsc::worlds::{Luck, Lucks, World, settle};

fn wanted() -> Wanted {
    Wanted {
        name: "pvc-1".to_owned(),
        gigabytes: 10,
        kind: Kind::Nas,
        options: BTreeMap::new(),
        comment: None,
    }
}

fn on_array(gigabytes: u64) -> ArrayVolume {
    serde_json::from_value(
        json!({"name": "volume-1", "display_name": "pvc-1", "status": "Available",
        "virtual_capacity": gigabytes, "data_type": "File-System", "cg_name": "cg-1"}),
    )
    .unwrap()
}

/// The object and the array, and what steps do to them.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
struct Whole {
    held: bool,
    deleting: bool,
    array: &'static str,
    id: &'static str,
    group: &'static str,
    is_clone: bool,
    volume: Option<ArrayVolume>,
    bin: Option<ArrayVolume>,
    known: bool,
    asked: bool,
    state: Option<VolumeState>,
    made: usize,
    gone: bool,
}

impl Whole {
    /// One volume in the array at most, whoever asks how often.
    fn make(&mut self, gigabytes: u64) {
        if self.volume.is_none() {
            let status = "Creating".to_owned();
            self.volume = Some(ArrayVolume {
                status,
                ..on_array(gigabytes)
            });
            self.made += 1;
        }
    }

    fn change(&mut self, step: &Step) {
        let volume = self.volume.as_mut();
        match (step, volume) {
            (Step::Hold, _) => self.held = true,
            (Step::Choose, _) => self.array = "one",
            (Step::Create, _) => self.make(10),
            (Step::Clone, _) => self.make(4),
            (Step::Expand(more), Some(volume)) => volume.virtual_capacity += more,
            (Step::Rename, Some(volume)) => volume.display_name = wanted().name,
            (Step::Delete, _) => {
                self.id = "volume-1";
                self.bin = self.volume.take();
            }
            (Step::Purge, _) => self.bin = None,
            (Step::Record(state, _), volume) => {
                if self.known && volume.is_some() {
                    self.id = "volume-1";
                }
                self.state = Some(state.clone());
            }
            (Step::LetGo, _) => self.gone = true,
            _ => {}
        }
    }
}

impl World for Whole {
    type Step = Step;

    fn next(&self) -> Option<Step> {
        let found = match (&self.volume, &self.bin) {
            (Some(volume), _) => Found::Volume(volume),
            // Nothing is found there by its name.
            (None, Some(volume)) if !self.id.is_empty() => Found::Deleted(volume),
            _ => Found::Nothing,
        };
        let observed = Observed {
            held: self.held,
            deleting: self.deleting,
            array: self.array,
            id: self.id,
            group: self.group,
            is_clone: self.is_clone,
            found: self.known.then_some(found),
            asked: self.asked,
            ..Observed::default()
        };
        let step = next_step(&Ok(wanted()), &observed);
        (!self.gone && step != Step::Rest).then_some(step)
    }

    fn act(&mut self, step: &Step, luck: Luck) {
        if luck != Luck::Failed {
            self.change(step);
        }
        if luck == Luck::Done && *step == Step::Clone {
            self.group = "cg-1";
        }
        self.asked |= matches!(step, Step::Create | Step::Clone);
        self.known = *step == Step::Ask;
    }

    fn rest(&mut self) {
        (self.known, self.asked) = (false, false);
        if let Some(volume) = &mut self.volume {
            volume.status = "Available".to_owned();
        }
    }

    fn is_record(step: &Step) -> bool {
        matches!(step, Step::Record(..))
    }

    fn asks(step: &Step) -> bool {
        *step == Step::Ask
    }
}

/// Every state that an object can have before we look at it for the first time.
fn starts() -> Vec<Whole> {
    let renamed = ArrayVolume {
        display_name: "old".to_owned(),
        ..on_array(10)
    };
    let on_arrays = [
        ("", "", None, None),
        ("one", "", None, None),
        ("one", "", Some(on_array(10)), None),
        ("one", "", Some(on_array(4)), None),
        ("one", "volume-1", Some(on_array(10)), None),
        ("one", "volume-1", Some(renamed), None),
        ("one", "volume-1", None, Some(on_array(10))),
        ("one", "volume-1", None, None),
    ];
    let mut all = Vec::new();
    for (array, id, volume, bin) in on_arrays {
        for bits in 0..8 {
            let [held, deleting, is_clone] = [1, 2, 4].map(|bit| bits & bit != 0);
            all.push(Whole {
                held,
                deleting,
                is_clone,
                array,
                id,
                volume: volume.clone(),
                bin: bin.clone(),
                ..Whole::default()
            });
        }
    }
    all
}

#[test]
fn from_any_state_and_whatever_fails_a_volume_is_made_once_or_leaves_no_trace() {
    for start in starts() {
        for lucks in Lucks::all() {
            let end = settle(&start, lucks);
            let told = format!("{lucks:?}: {start:?} became {end:?}");
            if start.deleting && !start.held {
                assert_eq!(end, start, "it is not ours: {told}");
            } else if start.deleting {
                let left = (&end.volume, &end.bin, end.made);
                assert!(end.gone && left == (&None, &None, 0), "{told}");
            } else if !start.id.is_empty() && start.volume.is_none() {
                assert_eq!(end.state, Some(VolumeState::Failed), "{told}");
                assert_eq!(end.made, 0, "{told}");
            } else {
                assert_eq!(end.state, Some(VolumeState::Ready), "{told}");
                let there = usize::from(start.volume.is_some());
                assert_eq!(end.made + there, 1, "{told}");
                assert_eq!(end.volume, Some(on_array(10)), "{told}");
            }
        }
    }
}

#[test]
fn what_is_wrong_is_told_apart() {
    let good = on_array(10);
    let other = |change: fn(&mut ArrayVolume)| {
        let mut volume = on_array(10);
        change(&mut volume);
        volume
    };
    let (large, small) = (on_array(12), on_array(4));
    let creating = other(|it| it.status = "Creating".to_owned());
    let broken = other(|it| it.status = "Failed".to_owned());
    let renamed = other(|it| it.display_name = "old".to_owned());
    let block = other(|it| it.data_type = DataType::Block);
    let base = Observed {
        held: true,
        array: "one",
        id: "volume-1",
        ..Observed::default()
    };
    for (found, shown) in [
        (Found::Volume(&good), "Ready/Ready"),
        (Found::Volume(&large), "Ready/CannotShrink"),
        (Found::Volume(&small), "Expand(6)"),
        (Found::Volume(&creating), "Provisioning/Provisioning"),
        (Found::Volume(&broken), "Failed/Unhealthy"),
        (Found::Volume(&renamed), "Rename"),
        (Found::Volume(&block), "Failed/OtherType"),
        (Found::Foreign(&good), "Failed/NameTaken"),
        (Found::Nothing, "Failed/Missing"),
        (Found::Deleted(&good), "Failed/Missing"),
    ] {
        let observed = Observed {
            found: Some(found),
            ..base.clone()
        };
        assert_eq!(show(next_step(&Ok(wanted()), &observed)), shown);
    }
    let invalid = next_step(&Err("wrong".to_owned()), &base);
    assert_eq!(show(invalid), "Failed/InvalidSpec");
}

#[test]
fn a_volume_that_is_used_or_is_not_ours_is_not_deleted() {
    let volume = on_array(10);
    let base = Observed {
        held: true,
        deleting: true,
        array: "one",
        id: "volume-1",
        found: Some(Found::Volume(&volume)),
        ..Observed::default()
    };
    let attached = Observed {
        attachments: 1,
        ..base.clone()
    };
    let snapshots = Observed {
        snapshots: 1,
        ..base.clone()
    };
    let foreign = Observed {
        found: Some(Found::Foreign(&volume)),
        ..base.clone()
    };
    let cloning = Observed {
        found: Some(Found::Nothing),
        id: "",
        group: "cg-1",
        ..base.clone()
    };
    for (observed, shown) in [
        (base, "Delete"),
        (attached, "Deleting/Attached"),
        (snapshots, "Deleting/HasSnapshots"),
        (foreign, "LetGo"),
        (cloning, "Deleting/Cloning"),
    ] {
        assert_eq!(show(next_step(&Ok(wanted()), &observed)), shown);
    }
}

fn show(step: Step) -> String {
    match step {
        Step::Record(state, reason) => format!("{state}/{}", reason.word),
        step => format!("{step:?}"),
    }
}
