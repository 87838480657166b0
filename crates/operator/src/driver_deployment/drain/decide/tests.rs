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

fn outdated() -> DriverPod {
    DriverPod::Outdated {
        name: "d".to_owned(),
        uid: "1".to_owned(),
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
        since: BEGUN,
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
fn as_many_nodes_are_begun_with_as_the_limit_admits() {
    let placed = |node: &str, pod: DriverPod| Placed {
        node: node.to_owned(),
        pod,
    };
    let pods = [
        placed("d", outdated()),
        placed("b", outdated()),
        placed("a", DriverPod::Current { is_ready: true }),
        placed("c", outdated()),
    ];
    let begun = |pods: &[Placed], busy: &[&str], limit: Limit| {
        let rules = DrainRules { limit, ..RULES };
        let busy: Vec<_> = busy.iter().map(ToString::to_string).collect();
        let (room, nodes) = next_nodes(pods, &busy, 4, &rules);
        nodes.into_iter().take(room).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(begun(&pods, &[], Limit::Nodes(1)), "b");
    assert_eq!(begun(&pods, &["b"], Limit::Nodes(1)), "");
    assert_eq!(begun(&pods, &["b"], Limit::Nodes(2)), "c");
    assert_eq!(begun(&pods, &[], Limit::Percent(50)), "b c");
    assert_eq!(begun(&pods, &[], Limit::Nodes(9)), "b c d");
    // A new pod that does not get ready counts: the next node would only make it worse.
    let mut broken = pods.clone();
    broken[2].pod = DriverPod::Current { is_ready: false };
    assert_eq!(begun(&broken, &[], Limit::Nodes(1)), "");
}
