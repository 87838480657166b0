use std::time::Duration;

use super::*;
use crate::driver::valid::Limit;

pub(in super::super) const RULES: DrainRules = DrainRules {
    limit: Limit::Nodes(1),
    is_paused: false,
    timeout: Duration::from_secs(600),
    settle: Duration::from_secs(30),
    evicts_bare_pods: false,
    evicts_empty_dirs: false,
    ignores_daemon_sets: false,
};

const BEGUN: Timestamp = Timestamp::UNIX_EPOCH;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

pub(in super::super) fn outdated() -> DriverPod {
    DriverPod::Outdated {
        name: "d".to_owned(),
        uid: "1".to_owned(),
        is_ready: true,
        tells_at: None,
    }
}

fn user(name: &str, fate: Fate) -> User {
    User {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        fate,
    }
}

/// A node that is tainted, and where nothing uses the driver any more.
fn empty() -> Sight {
    Sight {
        node: Some(NodeSight {
            is_ready: true,
            taint: Taint::Ours,
        }),
        driver: outdated(),
        is_registered: true,
        users: Vec::new(),
        attachments: Vec::new(),
        mounts: Mounts::Unknown("it is of before".to_owned()),
        since: BEGUN,
        told: None,
        unused_since: None,
    }
}

fn step(sight: &Sight, seconds: i64) -> Step {
    next_step(sight, &RULES, true, at(seconds))
}

#[test]
fn a_node_is_tainted_emptied_replaced_and_released() {
    let mut sight = Sight {
        node: Some(NodeSight {
            is_ready: true,
            taint: Taint::Missing,
        }),
        users: vec![user("db-0", Fate::Evict)],
        attachments: vec!["a".to_owned()],
        ..empty()
    };
    assert_eq!(step(&sight, 1), Step::Taint);
    sight.node = empty().node;
    let evict = Step::Evict(sight.users.clone(), "default/db-0 to leave".to_owned());
    assert_eq!(step(&sight, 2), evict);
    sight.users = vec![user("db-0", Fate::Leaves)];
    assert_eq!(
        step(&sight, 3),
        Step::Wait("default/db-0 to leave".to_owned())
    );
    sight.users.clear();
    let detached = "1 volumes to be detached, the first is a";
    assert_eq!(step(&sight, 4), Step::Wait(detached.to_owned()));
    sight.attachments.clear();
    assert!(matches!(step(&sight, 5), Step::Settle(_)));
    sight.unused_since = Some(at(5));
    assert!(matches!(step(&sight, 34), Step::Settle(_)));
    let replace = Step::Replace {
        name: "d".to_owned(),
        uid: "1".to_owned(),
    };
    assert_eq!(step(&sight, 35), replace);
    for (driver, is_registered) in [
        (DriverPod::Missing, true),
        (DriverPod::Current { is_ready: false }, true),
        (DriverPod::Current { is_ready: true }, false),
    ] {
        (sight.driver, sight.is_registered) = (driver, is_registered);
        assert!(matches!(step(&sight, 36), Step::Wait(_)), "{sight:?}");
    }
    sight.is_registered = true;
    assert_eq!(step(&sight, 40), Step::Release);
}

#[test]
fn a_node_that_tells_what_is_mounted_is_believed_and_not_waited_for_any_longer() {
    let known = |mounts: &[&str]| Sight {
        mounts: Mounts::Known(mounts.iter().map(ToString::to_string).collect()),
        ..empty()
    };
    let waits = "2 mounts to go, the first is pods/a";
    let mounted = known(&["pods/a", "pods/b"]);
    assert_eq!(step(&mounted, 1), Step::Wait(waits.to_owned()));
    let settled = Sight {
        unused_since: Some(BEGUN),
        ..mounted.clone()
    };
    assert_eq!(step(&settled, 100), Step::Wait(waits.to_owned()));
    assert!(matches!(step(&mounted, 600), Step::Fail(why) if why.contains(waits)));
    assert!(matches!(step(&known(&[]), 1), Step::Replace { .. }));
}

#[test]
fn a_held_pod_is_named_first_and_the_others_leave_all_the_same() {
    let sight = Sight {
        users: vec![
            user("a", Fate::Leaves),
            user("b", Fate::Evict),
            user("c", Fate::Held("it is precious")),
        ],
        ..empty()
    };
    let told = "default/c: it is precious and 2 more".to_owned();
    assert_eq!(
        step(&sight, 1),
        Step::Evict(vec![user("b", Fate::Evict)], told)
    );
}

#[test]
fn whatever_takes_too_long_stops_the_update_and_says_what_it_was() {
    let waiting = Sight {
        users: vec![user("c", Fate::Held("it is precious"))],
        ..empty()
    };
    let failed = |sight: &Sight| match step(sight, 600) {
        Step::Fail(why) => why,
        other => format!("{other:?}"),
    };
    let why = "waited in vain for default/c: it is precious";
    assert_eq!(failed(&waiting), why);
    let dead = Sight {
        node: Some(NodeSight {
            is_ready: false,
            taint: Taint::Ours,
        }),
        ..waiting
    };
    assert_eq!(failed(&dead), format!("the node is not ready; {why}"));
    let unready = Sight {
        driver: DriverPod::Current { is_ready: false },
        ..empty()
    };
    assert!(failed(&unready).contains("driver pod to be ready"));
    // What can be done is done, however late it is.
    let settled = Sight {
        unused_since: Some(BEGUN),
        ..empty()
    };
    assert!(matches!(step(&settled, 600), Step::Replace { .. }));
    // A clock that was set back stops nothing.
    let future = Sight {
        since: at(5000),
        ..dead
    };
    assert!(matches!(step(&future, 600), Step::Wait(_)));
}

#[test]
fn a_pause_leaves_nodes_with_their_old_pod_and_finishes_the_others() {
    let paused = |sight: &Sight| next_step(sight, &RULES, false, at(1));
    assert_eq!(paused(&empty()), Step::Release);
    let replaced = Sight {
        driver: DriverPod::Missing,
        ..empty()
    };
    assert!(matches!(paused(&replaced), Step::Wait(_)));
    let gone = Sight {
        node: None,
        ..empty()
    };
    assert_eq!(paused(&gone), Step::Forget);
}

#[test]
fn a_taint_of_somebody_else_is_left_alone() {
    let sight = Sight {
        node: Some(NodeSight {
            is_ready: true,
            taint: Taint::Foreign,
        }),
        ..empty()
    };
    let waits = matches!(step(&sight, 1), Step::Wait(why) if why.contains("somebody else"));
    assert!(waits);
}

#[test]
fn why_a_pod_may_not_leave_is_told_when_it_took_too_long() {
    let refused = "default/a: its budget allows no disruption";
    let sight = Sight {
        users: vec![user("a", Fate::Evict)],
        told: Some(refused.to_owned()),
        ..empty()
    };
    let why = format!("waited in vain for {refused}");
    assert_eq!(step(&sight, 600), Step::Fail(why));
}
