//! A class is as good as its worst member, goes when nothing needs it, and gets there whatever fails.

use serde_json::{Value, json};

use super::*;
use crate::vsc::worlds::{Luck, Lucks, World, settle};

fn member(name: &str, status: Value) -> Vpsa {
    let mut object = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VPSA",
        "metadata": {"name": name}, "spec": {"VSCStorageClassName": "gold"}});
    object["status"] = status;
    serde_json::from_value(object).unwrap()
}

fn shown(observed: &Observed, members: &[&Vpsa]) -> String {
    match next_step(observed, members) {
        Step::Record(state, reason) => format!("{state}/{}: {}", reason.word, reason.message),
        step => format!("{step:?}"),
    }
}

#[test]
fn a_class_is_as_good_as_its_worst_member() {
    let held = Observed {
        held: true,
        ..Observed::default()
    };
    let good = member("a", json!({"state": "Ready"}));
    let new = member("b", json!({"state": "Configuring"}));
    let sick = member(
        "c",
        json!({"state": "Unreachable", "conditions": [{"type": "Ready", "status": "False",
        "reason": "NoAnswer", "message": "no route", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}),
    );
    assert_eq!(next_step(&Observed::default(), &[]), Step::Hold);
    assert_eq!(shown(&held, &[]), "Ready/Ready: it has no VPSA yet");
    assert_eq!(shown(&held, &[&good, &new]), "Ready/Ready: 2 VPSAs");
    let failed = "Failed/MemberNotReady: c is Unreachable since 2026-01-02T03:04:05Z: no route";
    assert_eq!(shown(&held, &[&good, &sick]), failed);
    let several = Observed {
        is_default: true,
        other_defaults: vec!["x".to_owned()],
        ..held
    };
    assert!(shown(&several, &[]).starts_with("Ready/SeveralDefaults: x is"));
}

#[test]
fn a_class_goes_when_nothing_needs_it() {
    let leaving = Observed {
        held: true,
        deleting: true,
        ..Observed::default()
    };
    let some = member("a", json!({"state": "Ready"}));
    assert_eq!(shown(&leaving, &[]), "LetGo");
    assert!(shown(&leaving, &[&some]).starts_with("Deleting/HasMembers"));
    let default = Observed {
        is_default: true,
        ..leaving.clone()
    };
    assert!(shown(&default, &[]).starts_with("Deleting/DefaultClass"));
    let used = Observed {
        volumes: 1,
        ..leaving.clone()
    };
    assert!(shown(&used, &[]).starts_with("Deleting/HasVolumes"));
    let gone = Observed {
        held: false,
        ..leaving
    };
    assert_eq!(shown(&gone, &[]), "Rest");
}

#[test]
fn members_are_summed_and_the_worst_mode_counts() {
    let with = |total: &str, mode: &str| {
        json!({"state": "Ready", "capacity": {"total": total, "available": "1Gi", "mode": mode},
            "counters": {"pools": 1, "snapshots": 2, "volumes": 3}})
    };
    let (a, b) = (
        member("a", with("100Gi", "normal")),
        member("b", with("1Ti", "alert")),
    );
    let new = member("c", json!({"state": "Configuring"}));
    let before = VscStorageClassStatus::default();
    let status = aggregate(&before, ClassState::Ready, &[&a, &b, &new]);
    let status = serde_json::to_value(status).unwrap();
    let capacity = json!({"total": "1124Gi", "available": "2Gi", "mode": "alert"});
    assert_eq!(status["capacity"], capacity);
    let counters = json!({"VPSA": 3, "pools": 2, "snapshots": 4, "volumes": 6});
    assert_eq!(status["counters"], counters);
    let empty = serde_json::to_value(aggregate(&before, ClassState::Ready, &[])).unwrap();
    assert_eq!(
        empty["capacity"],
        json!({"total": "0", "available": "0", "mode": "normal"})
    );
}

/// The object, and what steps do to it.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
struct Whole {
    held: bool,
    deleting: bool,
    is_default: bool,
    /// The states of its members.
    members: Vec<&'static str>,
    volumes: usize,
    /// After so many looks nothing needs it any more.
    free_after: Option<u8>,
    recorded: Option<ClassState>,
    gone: bool,
}

impl Whole {
    fn is_needed(&self) -> bool {
        self.is_default || !self.members.is_empty() || self.volumes > 0
    }
}

impl World for Whole {
    type Step = Step;

    fn next(&self) -> Option<Step> {
        let members = self.members.iter();
        let members: Vec<Vpsa> = members
            .map(|state| member("a", json!({ "state": state })))
            .collect();
        let observed = Observed {
            held: self.held,
            deleting: self.deleting,
            is_default: self.is_default,
            other_defaults: Vec::new(),
            volumes: self.volumes,
        };
        let step = next_step(&observed, &members.iter().collect::<Vec<_>>());
        (!self.gone && step != Step::Rest).then_some(step)
    }

    fn act(&mut self, step: &Step, luck: Luck) {
        if luck == Luck::Failed {
            return;
        }
        match step {
            Step::Hold => self.held = true,
            Step::Record(state, _) => self.recorded = Some(state.clone()),
            Step::LetGo => {
                assert!(!self.is_needed(), "something needs it: {self:?}");
                self.gone = true;
            }
            Step::Rest => {}
        }
    }

    fn rest(&mut self) {
        match self.free_after {
            Some(0) => {
                (self.is_default, self.volumes) = (false, 0);
                self.members.clear();
                self.free_after = None;
            }
            later => self.free_after = later.map(|looks| looks - 1),
        }
    }

    fn is_record(step: &Step) -> bool {
        matches!(step, Step::Record(..))
    }

    fn asks(_step: &Step) -> bool {
        false
    }
}

/// Every state that a class can have before we look at it for the first time.
fn starts() -> Vec<Whole> {
    let mut all = Vec::new();
    for members in [&[][..], &["Ready"], &["Ready", "Unreachable"]] {
        for free_after in [None, Some(0), Some(2)] {
            for bits in 0..16 {
                let [held, deleting, is_default, has_volumes] =
                    [1, 2, 4, 8].map(|bit| bits & bit != 0);
                all.push(Whole {
                    held,
                    deleting,
                    is_default,
                    members: members.to_vec(),
                    volumes: usize::from(has_volumes),
                    free_after,
                    recorded: None,
                    gone: false,
                });
            }
        }
    }
    all
}

#[test]
fn from_any_state_and_whatever_fails_a_class_says_how_it_is_or_goes_when_nothing_needs_it() {
    for start in starts() {
        for lucks in Lucks::all() {
            let end = settle(&start, lucks);
            let told = format!("{lucks:?}: {start:?} became {end:?}");
            if start.deleting && !start.held {
                assert_eq!((end.gone, end.recorded), (false, None), "not ours: {told}");
            } else if start.deleting {
                assert_eq!(end.gone, !end.is_needed(), "{told}");
                let is_told = end.recorded == Some(ClassState::Deleting);
                assert!(is_told || end.gone, "{told}");
            } else {
                let state = if end.members.contains(&"Unreachable") {
                    ClassState::Failed
                } else {
                    ClassState::Ready
                };
                assert_eq!((end.held, end.recorded), (true, Some(state)), "{told}");
            }
        }
    }
}
