use super::*;
use crate::weka::state::testing::{admin, moment, outsider, state};

fn request(name: &str, access_point: &str) -> NewSnapshot {
    NewSnapshot {
        fs_uid: "fs-default".to_owned(),
        name: name.to_owned(),
        access_point: access_point.to_owned(),
        ..NewSnapshot::default()
    }
}

fn with_snapshot() -> State {
    let mut state = state("5.1");
    let (changes, _) = create(&state, &admin(), request("one", "one-point"), &moment()).unwrap();
    for change in changes {
        state.apply(change);
    }
    state
}

#[test]
fn names_and_access_points_are_unique_on_a_filesystem() {
    let state = with_snapshot();
    let table = [
        ("one", "other", Some("AlreadyExistsException")),
        ("other", "one-point", Some("AlreadyExistsException")),
        ("other", "other", None),
        ("other", "a/b", Some("InvalidArgumentException")),
        ("other", "..", Some("InvalidArgumentException")),
        ("", "other", Some("InvalidArgumentException")),
    ];
    for (name, point, expected) in table {
        let made = create(&state, &admin(), request(name, point), &moment());
        let refused = made.err().map(|refusal| refusal.exception());
        assert_eq!(refused, expected, "{name} {point}");
    }
}

#[test]
fn a_source_must_be_there_and_stay() {
    let mut state = with_snapshot();
    let from = |source: &str| NewSnapshot {
        source_snap_uid: Some(source.to_owned()),
        is_writable: true,
        ..request("two", "two-point")
    };
    let first = moment().uid;
    let made = |state: &State, source: &str| create(state, &admin(), from(source), &moment());
    assert!(made(&state, &first).unwrap().1.writable);
    assert_eq!(made(&state, "none").unwrap_err().status(), 404);
    let changes = delete(&state, &admin(), &first, &moment()).unwrap();
    for change in changes {
        state.apply(change);
    }
    assert_eq!(made(&state, &first).unwrap_err().status(), 409);
}

#[test]
fn another_organization_sees_none_of_it() {
    let state = with_snapshot();
    let uid = moment().uid;
    assert!(get(&state, &admin(), &uid).is_ok());
    let refused = get(&state, &outsider(), &uid).unwrap_err();
    assert_eq!(refused, Refusal::SnapshotMissing(uid));
    let refused = create(&state, &outsider(), request("x", "x"), &moment()).unwrap_err();
    assert_eq!(refused.exception(), "FilesystemDoesNotExistException");
}
