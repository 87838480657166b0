use super::*;
use crate::weka::state::testing::{MOMENT_NOW, data_services, moment, state};

const EMPTY: Directory = Directory {
    inode: 7,
    empty: true,
    snapshot: None,
};

fn limits(hard: u64, soft: u64) -> Limits {
    Limits {
        hard_limit_bytes: Some(hard),
        soft_limit_bytes: Some(soft),
        ..Limits::default()
    }
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let state = state("5.1");
    let filesystem = &state.filesystems["fs-default"];
    for (hard, soft) in [(0, 0), (10, 11), (UNLIMITED + 1, 5), (10, 0)] {
        let refused = set(&state, filesystem, &EMPTY, &limits(hard, soft), &moment()).unwrap_err();
        assert_eq!(refused.status(), 400, "{hard} {soft}");
    }
}

#[test]
fn a_quota_is_adding_then_active_and_new_limits_count_at_once() {
    let mut state = state("5.1");
    let filesystem = state.filesystems["fs-default"].clone();
    let (changes, quota) = set(&state, &filesystem, &EMPTY, &limits(10, 10), &moment()).unwrap();
    for change in changes {
        state.apply(change);
    }
    assert_eq!(quota.status(MOMENT_NOW), Status::Adding);
    assert_eq!(quota.status(MOMENT_NOW + 30), Status::Active);

    let mut later = moment();
    later.now += 100;
    let full = Directory {
        empty: false,
        ..EMPTY
    };
    let (_, second) = set(&state, &filesystem, &full, &limits(UNLIMITED, 10), &later).unwrap();
    assert_eq!(second.status(later.now), Status::Active);
    assert_eq!(second.number, quota.number);
    assert!(second.is_overrun(11, later.now) && !second.is_overrun(10, later.now));
}

#[test]
fn a_directory_with_files_needs_data_services() {
    let mut state = state("5.1");
    let filesystem = state.filesystems["fs-default"].clone();
    let full = Directory {
        empty: false,
        ..EMPTY
    };
    let attempt = |state: &State| {
        set(state, &filesystem, &full, &limits(10, 10), &moment()).map(|(_, quota)| quota.inode)
    };
    assert_eq!(attempt(&state), Err(Refusal::DirectoryNotEmpty));
    state.apply(data_services());
    assert_eq!(attempt(&state), Ok(7));
}

#[test]
fn activation_can_end_in_an_error() {
    let state = state("5.1");
    let mut broken = moment();
    broken.delays.quota = None;
    let filesystem = &state.filesystems["fs-default"];
    let (_, quota) = set(&state, filesystem, &EMPTY, &limits(10, 10), &broken).unwrap();
    assert_eq!(quota.status(MOMENT_NOW + 1_000_000), Status::Error);
}

#[test]
fn a_missing_quota_is_500_on_old_versions() {
    for (release, status) in [("3.13", 500), ("4.1", 500), ("4.2", 404)] {
        let refused = get(&state(release), "fs-default", 7).unwrap_err();
        assert_eq!(refused.status(), status, "{release}");
        assert_eq!(refused.to_string(), "Directory has no quota");
    }
}

#[test]
fn a_removed_quota_is_deleting_then_gone() {
    let mut state = state("5.1");
    let filesystem = state.filesystems["fs-default"].clone();
    let (changes, _) = set(&state, &filesystem, &EMPTY, &limits(10, 10), &moment()).unwrap();
    for change in changes {
        state.apply(change);
    }
    let (changes, quota) = delete(&state, "fs-default", 7, &moment()).unwrap();
    for change in changes {
        state.apply(change);
    }
    assert_eq!(quota.status(MOMENT_NOW), Status::Deleting);
    let filesystem = state.filesystems["fs-default"].clone();
    let early = set(&state, &filesystem, &EMPTY, &limits(5, 5), &moment()).unwrap_err();
    assert_eq!(early.status(), 409);
    for change in state.outdated(MOMENT_NOW + 20) {
        state.apply(change);
    }
    assert!(get(&state, "fs-default", 7).is_err());
}
