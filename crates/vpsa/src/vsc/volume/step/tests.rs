//! Steps in a world where every call can fail: they lead to the same end, and nothing is made twice.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;

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
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
struct World {
    held: bool,
    deleting: bool,
    array: String,
    id: String,
    group: String,
    is_clone: bool,
    volume: Option<ArrayVolume>,
    bin: Option<ArrayVolume>,
    known: bool,
    asked: bool,
    state: Option<VolumeState>,
    made: usize,
    gone: bool,
}

impl World {
    fn next(&self) -> Step {
        let found = match (&self.volume, &self.bin) {
            (Some(volume), _) => Found::Volume(volume),
            (None, Some(volume)) => Found::Deleted(volume),
            (None, None) => Found::Nothing,
        };
        let observed = Observed {
            held: self.held,
            deleting: self.deleting,
            array: &self.array,
            id: &self.id,
            group: &self.group,
            is_clone: self.is_clone,
            found: self.known.then_some(found),
            asked: self.asked,
            ..Observed::default()
        };
        next_step(&Ok(wanted()), &observed)
    }

    /// Does a step; `told` is whether we live to see the answer.
    fn act(&mut self, step: &Step, told: bool) {
        self.known = false;
        match step {
            Step::Hold => self.held = true,
            Step::Choose => self.array = "one".to_owned(),
            Step::Ask => self.known = true,
            Step::Create | Step::Clone => {
                self.volume = Some(on_array(if self.is_clone { 4 } else { 10 }));
                self.made += 1;
                self.asked = told;
                if told && self.is_clone {
                    self.group = "cg-1".to_owned();
                }
            }
            Step::Expand(more) => {
                let volume = self.volume.as_mut().unwrap();
                volume.virtual_capacity += more;
            }
            Step::Delete => self.bin = self.volume.take(),
            Step::Purge => self.bin = None,
            Step::Record(state, _) => {
                self.state = Some(state.clone());
                if *state == VolumeState::Ready {
                    self.id = "volume-1".to_owned();
                }
            }
            Step::LetGo => self.gone = true,
            Step::Rename | Step::Comment | Step::Rest => {}
        }
        if !told {
            self.known = false;
            self.asked = false;
        }
    }

    /// Goes on until a record is repeated or the object is gone. We die after the steps whose bit is set in `deaths`.
    fn run(&mut self, mut deaths: u32) -> usize {
        let mut last = None;
        for count in 0..60 {
            let step = self.next();
            if self.gone || (matches!(step, Step::Record(..)) && last.as_ref() == Some(&step)) {
                return count;
            }
            self.act(&step, deaths & 1 == 0);
            deaths >>= 1;
            if !matches!(step, Step::Ask) {
                last = Some(step);
            }
        }
        panic!("no end: {:?}", self.next());
    }
}

#[test]
fn whenever_we_die_a_volume_is_made_once_and_deleted_without_a_trace() {
    for is_clone in [false, true] {
        for deaths in 0..256 {
            let mut world = World {
                is_clone,
                ..World::default()
            };
            world.run(deaths);
            assert_eq!(
                world.state,
                Some(VolumeState::Ready),
                "{is_clone} {deaths:b}"
            );
            assert_eq!(world.made, 1, "{is_clone} {deaths:b}");
            assert_eq!(world.volume.as_ref().unwrap().virtual_capacity, 10);
            world.deleting = true;
            world.known = false;
            world.run(deaths);
            assert!(
                world.gone && world.volume.is_none() && world.bin.is_none(),
                "{deaths:b}"
            );
        }
    }
}

#[test]
fn a_finished_volume_stays_as_it_is() {
    let mut world = World::default();
    world.run(0);
    let calls = world.made;
    assert!(world.run(0) <= 3);
    assert_eq!(world.made, calls);
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
