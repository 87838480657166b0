//! From every state the steps lead to the right one, and a finished object stays as it is.

use serde_json::{Value, json};

use super::*;
use crate::rest::wire::Pool;
use crate::vsc::worlds::{Luck, Lucks, World, settle};

fn pools(count: usize) -> Vec<Pool> {
    let pool = |number| -> Value {
        json!({"name": format!("pool-{number}"), "display_name": format!("p{number}"),
            "capacity": 100, "available_capacity": 50})
    };
    let pools = (0..count).map(|number| serde_json::from_value(pool(number)).unwrap());
    pools.collect()
}

fn facts(version: &str) -> Facts {
    let controller = json!({"state": "active", "software_ver": version});
    Facts {
        controller: Some(serde_json::from_value(controller).unwrap()),
        portals: Vec::new(),
        pools: pools(1),
        failed: Vec::new(),
        content: None,
    }
}

const DESIRED: Desired<'_> = Desired {
    deleting: false,
    class: Some(None),
    class_name: "gold",
    portals: &[],
    import: true,
};

const NEW: Observed<'_> = Observed {
    held: false,
    plain_token: true,
    recorded: None,
    users: 0,
    array: None,
    imported: false,
};

/// Does steps until one is repeated, and shows them.
fn run(
    desired: &Desired<'_>,
    start: &Observed<'_>,
    array: Result<&Facts, &Trouble>,
) -> Vec<String> {
    let mut observed = *start;
    let mut recorded = observed.recorded.cloned();
    let mut shown = Vec::new();
    for _ in 0..20 {
        let now = Observed {
            recorded: recorded.as_ref(),
            ..observed
        };
        let step = next_step(desired, &now);
        let last = shown.last().cloned();
        match &step {
            Step::Hold => observed.held = true,
            Step::Conceal => observed.plain_token = false,
            Step::Ask => observed.array = Some(array),
            Step::Import => observed.imported = true,
            Step::LetGo => observed.held = false,
            Step::Record(state, _) => recorded = Some(state.clone()),
            Step::Rest => return shown,
        }
        shown.push(match step {
            Step::Record(state, reason) => format!("{state}/{}", reason.word),
            step => format!("{step:?}"),
        });
        if shown.last() == last.as_ref() {
            shown.pop();
            return shown;
        }
    }
    panic!("no end: {shown:?}");
}

#[test]
fn a_new_array_is_checked_imported_and_ready() {
    let good = facts("22.06-sp1");
    let steps = run(&DESIRED, &NEW, Ok(&good));
    let whole = [
        "Hold",
        "Conceal",
        "Configuring/Configuring",
        "Ask",
        "Importing/Importing",
        "Import",
        "Ready/Ready",
    ];
    assert_eq!(steps, whole);
    let no_import = Desired {
        import: false,
        ..DESIRED
    };
    let steps = run(&no_import, &NEW, Ok(&good));
    assert_eq!(steps.last().unwrap(), "Ready/Ready");
    assert!(!steps.contains(&"Import".to_owned()));
}

#[test]
fn what_is_wrong_is_told_apart() {
    let good = facts("22.06");
    let two_pools = Facts {
        pools: pools(2),
        ..good.clone()
    };
    let sick = Facts {
        failed: vec!["drive 1 is Failed".to_owned()],
        ..good.clone()
    };
    let headless = Facts {
        controller: None,
        ..good.clone()
    };
    let away = Trouble::from(ApiError::AccessKey);
    let another = Trouble::Another {
        known: "vsa-1".to_owned(),
        now: "vsa-2".to_owned(),
    };
    let taken = Trouble::Taken {
        other: "a".to_owned(),
        identity: "vsa-1".to_owned(),
    };
    let named = Desired {
        class: Some(Some("p1")),
        ..DESIRED
    };
    let no_class = Desired {
        class: None,
        ..DESIRED
    };
    for (desired, array, end) in [
        (DESIRED, Ok(&facts("20.12-sp1")), "Incompatible/Version"),
        (DESIRED, Ok(&facts("unknown")), "Incompatible/Version"),
        (DESIRED, Ok(&two_pools), "Incompatible/Pools"),
        (named, Ok(&two_pools), "Ready/Ready"),
        (named, Ok(&good), "Incompatible/Pools"),
        (no_class, Ok(&good), "Configuring/NoClass"),
        (DESIRED, Ok(&sick), "Failed/Unhealthy"),
        (DESIRED, Ok(&headless), "Failed/NoController"),
        (DESIRED, Err(&away), "Unreachable/Credentials"),
        (DESIRED, Err(&another), "Incompatible/AnotherArray"),
        (DESIRED, Err(&taken), "Incompatible/SameArray"),
    ] {
        let steps = run(&desired, &NEW, array);
        assert_eq!(steps.last().unwrap(), end, "{steps:?}");
    }
}

#[test]
fn from_every_state_the_same_array_comes_to_the_same_end_and_stays() {
    let good = facts("23.09");
    let away = Trouble::Description("no address".to_owned());
    let states = VpsaState::WORDS.iter().map(|word| VpsaState::from(*word));
    for state in states {
        for (array, end) in [
            (Ok(&good), "Ready/Ready"),
            (Err(&away), "Unreachable/InvalidSpec"),
        ] {
            for held in [true, false] {
                let start = Observed {
                    held,
                    recorded: Some(&state),
                    ..NEW
                };
                let steps = run(&DESIRED, &start, array);
                assert_eq!(steps.last().unwrap(), end, "{state}: {steps:?}");
            }
        }
    }
    let ready = VpsaState::Ready;
    let steady = Observed {
        held: true,
        plain_token: false,
        recorded: Some(&ready),
        imported: true,
        ..NEW
    };
    assert_eq!(run(&DESIRED, &steady, Ok(&good)), ["Ask", "Ready/Ready"]);
    let more = Observed {
        imported: false,
        ..steady
    };
    let steps = run(&DESIRED, &more, Ok(&good));
    assert_eq!(steps, ["Ask", "Import", "Ready/Ready"]);
}

#[test]
fn an_array_goes_when_nothing_is_on_it_whether_it_answers_or_not() {
    let leaving = Desired {
        deleting: true,
        ..DESIRED
    };
    let away = Trouble::Description("no address".to_owned());
    let held = Observed { held: true, ..NEW };
    let used = Observed { users: 2, ..held };
    let steps = run(&leaving, &used, Err(&away));
    assert_eq!(steps, ["Ask", "Deleting/InUse"]);
    assert_eq!(run(&leaving, &held, Err(&away)), ["LetGo"]);
    assert_eq!(run(&leaving, &NEW, Err(&away)), Vec::<String>::new());
}

/// The object and the array, and what steps do to them.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
struct Whole {
    held: bool,
    deleting: bool,
    plain_token: bool,
    recorded: Option<VpsaState>,
    users: usize,
    /// Whether it answered in this look.
    answered: Option<bool>,
    /// Whether what is there is imported, as far as this look knows.
    imported: bool,
    /// Whether what is there is imported.
    has_records: bool,
    gone: bool,
}

impl World for Whole {
    type Step = Step;

    fn next(&self) -> Option<Step> {
        let (good, away) = (facts("23.09"), Trouble::from(ApiError::AccessKey));
        let desired = Desired {
            deleting: self.deleting,
            ..DESIRED
        };
        let answer = |is_there| if is_there { Ok(&good) } else { Err(&away) };
        let step = next_step(
            &desired,
            &Observed {
                held: self.held,
                plain_token: self.plain_token,
                recorded: self.recorded.as_ref(),
                users: self.users,
                array: self.answered.map(answer),
                imported: self.imported,
            },
        );
        (!self.gone && step != Step::Rest).then_some(step)
    }

    fn act(&mut self, step: &Step, luck: Luck) {
        if *step == Step::Ask {
            self.answered = Some(luck == Luck::Done);
        }
        if luck == Luck::Failed {
            return;
        }
        match step {
            Step::Hold => self.held = true,
            Step::Conceal => self.plain_token = false,
            Step::Import => (self.imported, self.has_records) = (true, true),
            Step::Record(state, _) => self.recorded = Some(state.clone()),
            Step::LetGo => self.gone = true,
            Step::Ask | Step::Rest => {}
        }
    }

    fn rest(&mut self) {
        (self.answered, self.imported) = (None, false);
    }

    fn is_record(step: &Step) -> bool {
        matches!(step, Step::Record(..))
    }

    fn asks(step: &Step) -> bool {
        *step == Step::Ask
    }

    /// An array that does not answer is Unreachable.
    fn goes_on_without(step: &Step) -> bool {
        *step == Step::Ask
    }
}

#[test]
fn from_any_state_and_whatever_fails_an_array_is_ready_or_goes_when_nothing_is_on_it() {
    let states = VpsaState::WORDS.iter();
    let states = states.map(|word| Some(VpsaState::from(*word)));
    for recorded in states.chain([None]) {
        for bits in 0..16 {
            let [held, deleting, plain_token, is_used] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            let start = Whole {
                held,
                deleting,
                plain_token,
                recorded: recorded.clone(),
                users: usize::from(is_used),
                answered: None,
                imported: false,
                has_records: false,
                gone: false,
            };
            for lucks in Lucks::all() {
                let end = settle(&start, lucks);
                let told = format!("{lucks:?}: {start:?} became {end:?}");
                if deleting && !held {
                    assert_eq!(end, start, "it is not ours: {told}");
                } else if deleting {
                    assert_eq!(end.gone, !is_used, "{told}");
                    let is_told = end.recorded == Some(VpsaState::Deleting);
                    assert!(is_told || end.gone, "{told}");
                } else {
                    assert_eq!(end.recorded, Some(VpsaState::Ready), "{told}");
                    let done = (end.held, end.plain_token, end.has_records);
                    assert_eq!(done, (true, false, true), "{told}");
                }
            }
        }
    }
}
