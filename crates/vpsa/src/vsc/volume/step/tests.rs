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

/// How many looks it takes until what the array makes is seen, and how many until it is certain that nothing comes.
const SEEN_AFTER: u8 = 2;
const CERTAIN_AFTER: u8 = 4;

/// The object and the arrays, and what steps do to them.
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
    group: &'static str,
    is_clone: bool,
    /// The array is to go as soon as nobody is on it.
    going: bool,
    /// The first array has no room.
    full: bool,
    /// So many looks ago an array was asked; none if it was not, or refused.
    asked_ago: Option<u8>,
    checked: bool,
    fresh: bool,
    volume: Option<ArrayVolume>,
    /// On which array that is, and how many looks it takes until it is seen.
    place: (&'static str, u8),
    bin: Option<ArrayVolume>,
    known: bool,
    asked: bool,
    state: Option<VolumeState>,
    made: usize,
    gone: bool,
}

impl Whole {
    /// One volume in the array at most, whoever asks how often. An array that is full says so, and nothing is made.
    fn make(&mut self, gigabytes: u64) {
        assert!(!self.going, "made on an array that is to go: {self:?}");
        assert_eq!(self.asked_ago, Some(0), "made without a word: {self:?}");
        if self.volume.is_none() {
            let status = "Creating".to_owned();
            self.volume = Some(ArrayVolume {
                status,
                ..on_array(gigabytes)
            });
            self.place = (self.array, SEEN_AFTER);
            self.made += 1;
        }
    }

    /// What is on the array that was chosen, for everybody to see.
    fn seen(&self) -> Option<&ArrayVolume> {
        let volume = self.volume.as_ref();
        volume.filter(|_| self.place == (self.array, 0))
    }

    fn has_begun(&self) -> bool {
        self.asked_ago.is_some()
    }

    /// Nothing of it can be on the array, and it need not be there.
    fn may_give_up(&self) -> bool {
        !self.has_begun() && self.id.is_empty() && self.group.is_empty() && !self.is_clone
    }

    fn found(&self) -> Found<'_> {
        let by_id = !self.id.is_empty();
        match (self.seen(), &self.bin) {
            (Some(volume), _) if by_id || self.has_begun() => Found::Volume(volume),
            // Nobody has asked for it.
            (Some(volume), _) => Found::Foreign(volume),
            // Nothing is found there by its name.
            (None, Some(volume)) if by_id => Found::Deleted(volume),
            _ => Found::Nothing,
        }
    }

    fn change(&mut self, step: &Step, luck: Luck) {
        match (step, self.volume.as_mut()) {
            (Step::Hold, _) => self.held = true,
            (Step::Choose, _) => self.array = if self.full { "two" } else { "one" },
            (Step::Check, _) if self.going => (self.array, self.going) = ("", false),
            (Step::Begin, _) => self.asked_ago = Some(0),
            (Step::Create | Step::Clone, _) => {
                let before = self.asked_ago.filter(|_| !self.fresh);
                self.asked_ago = Some(0);
                if self.full && self.array == "one" {
                    // It says no. Whoever hears that takes back that it was asked, and gives it up if nobody asked before.
                    if luck == Luck::Done {
                        self.asked_ago = before;
                    }
                    if luck == Luck::Done && before.is_none() && !self.is_clone {
                        self.array = "";
                        (self.checked, self.fresh, self.asked) = (false, false, false);
                    }
                } else {
                    self.make(if *step == Step::Clone { 4 } else { 10 });
                }
            }
            (Step::Expand(more), Some(volume)) => volume.virtual_capacity += more,
            (Step::Rename, Some(volume)) => volume.display_name = wanted().name,
            (Step::Delete, _) => {
                self.id = "volume-1";
                self.bin = self.volume.take();
            }
            (Step::Purge, _) => self.bin = None,
            (Step::Record(state, _), _) => {
                match self.found() {
                    Found::Volume(_) if self.known => self.id = "volume-1",
                    Found::Foreign(_) if self.known => self.asked_ago = None,
                    _ => {}
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
        let observed = Observed {
            held: self.held,
            deleting: self.deleting,
            array: self.array,
            id: self.id,
            group: self.group,
            is_clone: self.is_clone,
            began: self.has_begun(),
            pending: self.asked_ago.is_some_and(|looks| looks < CERTAIN_AFTER),
            checked: self.checked,
            fresh: self.fresh,
            found: self.known.then(|| self.found()),
            asked: self.asked,
            empties_bin: true,
            ..Observed::default()
        };
        let step = next_step(&Ok(wanted()), &observed);
        (!self.gone && step != Step::Rest).then_some(step)
    }

    fn act(&mut self, step: &Step, luck: Luck) {
        self.asked |= matches!(step, Step::Create | Step::Clone);
        if luck != Luck::Failed {
            self.change(step, luck);
        }
        let is_made = !self.array.is_empty() && self.volume.is_some();
        if luck == Luck::Done && *step == Step::Clone && is_made {
            self.group = "cg-1";
        }
        let is_seen = luck == Luck::Done && matches!(step, Step::Delete | Step::Purge);
        let stays = self.known && matches!(step, Step::Begin | Step::Check);
        let is_told = luck == Luck::Done && *step == Step::Ask;
        self.known = is_told || is_seen || stays;
        // An array that does not answer before it was asked to make anything is given up for another.
        if luck == Luck::Failed && *step == Step::Ask && self.may_give_up() {
            self.array = "";
        }
        self.checked |= luck == Luck::Done && *step == Step::Check && !self.array.is_empty();
        self.fresh |= luck == Luck::Done && *step == Step::Begin && self.has_begun();
    }

    /// Time goes by with every look.
    fn rest(&mut self) {
        (self.known, self.asked) = (false, false);
        (self.checked, self.fresh) = (false, false);
        self.asked_ago = self
            .asked_ago
            .map(|looks| looks.saturating_add(1).min(CERTAIN_AFTER));
        self.place.1 = self.place.1.saturating_sub(1);
        if let Some(volume) = self.volume.as_mut().filter(|_| self.place.1 == 0) {
            volume.status = "Available".to_owned();
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
    // Asked for, and nothing is there yet.
    let mut all = vec![Whole {
        held: true,
        array: "one",
        asked_ago: Some(0),
        ..Whole::default()
    }];
    for (array, id, volume, bin) in on_arrays {
        for bits in 0..16 {
            let [held, deleting, is_clone, going] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            // What is there was asked for.
            let began = volume.is_some() || bin.is_some();
            all.push(Whole {
                held,
                deleting,
                is_clone,
                going: going && !began && id.is_empty() && !array.is_empty(),
                asked_ago: began.then_some(0),
                array,
                id,
                place: ("one", 0),
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
                assert!(
                    !end.gone && end.volume == start.volume,
                    "it is not ours: {told}"
                );
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
fn whenever_a_volume_is_deleted_and_whatever_fails_nothing_of_it_is_left() {
    let starts = starts().into_iter().filter(|it| !it.deleting);
    for start in starts {
        for looks in 0..6 {
            let start = Whole {
                held: true,
                deleted_after: Some(looks),
                ..start.clone()
            };
            for lucks in Lucks::all() {
                let end = settle(&start, lucks);
                let told = format!("{lucks:?}: {start:?} became {end:?}");
                let left = (&end.volume, &end.bin);
                assert!(end.gone && left == (&None, &None), "{told}");
            }
        }
    }
}

#[test]
fn an_array_without_room_is_given_up_and_nothing_is_left_on_it() {
    let unasked = [("", None), ("one", None), ("one", Some(0))];
    for (array, asked_ago) in unasked {
        for deleted_after in [None, Some(0), Some(1), Some(3)] {
            let start = Whole {
                held: true,
                full: array == "one",
                array,
                asked_ago,
                deleted_after,
                ..Whole::default()
            };
            for lucks in Lucks::all() {
                let end = settle(&start, lucks);
                let told = format!("{lucks:?}: {start:?} became {end:?}");
                if deleted_after.is_some() {
                    assert!(end.gone && end.volume.is_none(), "{told}");
                } else {
                    assert_eq!(end.state, Some(VolumeState::Ready), "{told}");
                    let place = if start.full { "two" } else { "one" };
                    assert_eq!(
                        (end.place.0, end.array, end.made),
                        (place, place, 1),
                        "{told}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_somebody_else_made_under_the_same_name_stays_theirs_whatever_fails() {
    for deleted_after in [None, Some(0), Some(1), Some(3), Some(5)] {
        for array in ["", "one"] {
            let start = Whole {
                held: true,
                array,
                volume: Some(on_array(3)),
                place: ("one", 0),
                deleted_after,
                ..Whole::default()
            };
            for lucks in Lucks::all() {
                let end = settle(&start, lucks);
                let told = format!("{lucks:?}: {start:?} became {end:?}");
                assert_eq!((end.made, &end.volume), (0, &start.volume), "{told}");
                if deleted_after.is_some() {
                    assert!(end.gone, "{told}");
                } else {
                    assert_eq!(
                        (end.state, end.id),
                        (Some(VolumeState::Failed), ""),
                        "{told}"
                    );
                }
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
    // Whatever the array makes of what it is told: it is told once in a look.
    let mut told = Observed {
        found: Some(Found::Volume(&renamed)),
        renamed: true,
        ..base.clone()
    };
    assert_eq!(show(next_step(&Ok(wanted()), &told)), "Ready/NotTaken");
    let commented = Wanted {
        comment: Some("ours".to_owned()),
        ..wanted()
    };
    told.found = Some(Found::Volume(&good));
    assert_eq!(show(next_step(&Ok(commented.clone()), &told)), "Comment");
    told.commented = true;
    assert_eq!(show(next_step(&Ok(commented), &told)), "Ready/NotTaken");
    let expanding = ArrayVolume {
        status: "Expanding".to_owned(),
        ..good.clone()
    };
    told.found = Some(Found::Volume(&expanding));
    assert_eq!(show(next_step(&Ok(wanted()), &told)), "Ready/Expanding");
    let taken = Observed {
        id: "",
        began: true,
        fresh: true,
        asked: true,
        found: Some(Found::Foreign(&good)),
        ..base.clone()
    };
    assert_eq!(show(next_step(&Ok(wanted()), &taken)), "Failed/NameTaken");
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
        began: true,
        group: "cg-1",
        ..base.clone()
    };
    let pending = Observed {
        group: "",
        pending: true,
        ..cloning.clone()
    };
    let given_up = Observed {
        pending: false,
        ..pending.clone()
    };
    // Whatever has its name on the array.
    let unbegun = Observed {
        id: "",
        ..base.clone()
    };
    let unasked = Observed {
        began: true,
        fresh: true,
        ..unbegun.clone()
    };
    for (observed, shown) in [
        (unasked, "LetGo"),
        (unbegun, "LetGo"),
        (base, "Delete"),
        (attached, "Deleting/Attached"),
        (snapshots, "Deleting/HasSnapshots"),
        (foreign, "LetGo"),
        (cloning, "Deleting/Cloning"),
        (pending, "Deleting/Provisioning"),
        (given_up, "LetGo"),
    ] {
        assert_eq!(show(next_step(&Ok(wanted()), &observed)), shown);
    }
}

#[test]
fn what_the_array_shows_decides_whether_a_volume_is_deleted() {
    let other = |change: fn(&mut ArrayVolume)| {
        let mut volume = on_array(10);
        change(&mut volume);
        volume
    };
    let base = Observed {
        held: true,
        deleting: true,
        array: "one",
        names: ["pvc-1", "before"],
        id: "volume-1",
        group: "cg-1",
        ..Observed::default()
    };
    let unnamed = Observed {
        names: ["pvc-1", ""],
        group: "",
        ..base.clone()
    };
    let pending = other(|it| it.display_name = "before".to_owned());
    let renamed = other(|it| it.display_name = "theirs".to_owned());
    let moved = other(|it| it.cg = "cg-2".parse().ok());
    let groupless = other(|it| it.cg = None);
    let attached = other(|it| it.servers = vec!["srv-7".parse().unwrap()]);
    let copied = other(|it| it.has_snapshots = true);
    for (observed, volume, shown, says) in [
        (&base, on_array(10), "Delete", ""),
        (&base, pending, "Delete", ""),
        (&base, renamed.clone(), "Deleting/OtherVolume", "`theirs`"),
        (&base, moved.clone(), "Deleting/OtherVolume", "`cg-2`"),
        (&base, groupless, "Deleting/OtherVolume", "`cg-1`"),
        (&base, attached.clone(), "Deleting/AttachedOnArray", "srv-7"),
        (&base, copied, "Deleting/SnapshotsOnArray", "Delete them"),
        // A record of before that does not say what it was called.
        (&unnamed, renamed.clone(), "Delete", ""),
        (&unnamed, moved.clone(), "Delete", ""),
        (
            &unnamed,
            attached.clone(),
            "Deleting/AttachedOnArray",
            "srv-7",
        ),
    ] {
        let mut observed = observed.clone();
        observed.found = Some(Found::Volume(&volume));
        let step = next_step(&Ok(wanted()), &observed);
        if let Step::Record(state, reason) = &step {
            assert!(is_trouble(state, reason), "{reason:?}");
            let message = &reason.message;
            assert!(
                message.contains(says) && message.contains("volume-1"),
                "{message}"
            );
        }
        assert_eq!(show(step), shown, "{volume:?}");
        // Only by its own identity is it meant.
        for (forced, expected) in [("volume-2", shown), ("volume-1", "DeleteByForce")] {
            observed.forced = forced;
            assert_eq!(show(next_step(&Ok(wanted()), &observed)), expected);
        }
        // What the cluster knows of is waited for, whatever people say.
        observed.snapshots = 1;
        let step = next_step(&Ok(wanted()), &observed);
        assert_eq!(show(step), "Deleting/HasSnapshots");
    }
}

#[test]
fn what_was_deleted_stays_in_the_recycle_bin_unless_it_is_to_be_emptied() {
    let volume = on_array(10);
    let deleted = |empties_bin| Observed {
        held: true,
        deleting: true,
        array: "one",
        id: "volume-1",
        found: Some(Found::Deleted(&volume)),
        empties_bin,
        ..Observed::default()
    };
    for (empties_bin, shown) in [(false, "LetGo"), (true, "Purge")] {
        let step = next_step(&Ok(wanted()), &deleted(empties_bin));
        assert_eq!(show(step), shown);
    }
}

fn show(step: Step) -> String {
    match step {
        Step::Record(state, reason) => format!("{state}/{}", reason.word),
        step => format!("{step:?}"),
    }
}
