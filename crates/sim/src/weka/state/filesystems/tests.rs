use super::*;
use crate::weka::state::NfsPermission;
use crate::weka::state::testing::{MOMENT_NOW, admin, kms, moment, state};

fn request(change: impl FnOnce(&mut NewFilesystem)) -> NewFilesystem {
    let mut request = NewFilesystem {
        name: "new".to_owned(),
        group_name: "default".to_owned(),
        total_capacity: 100,
        ..NewFilesystem::default()
    };
    change(&mut request);
    request
}

/// What is wrong, with which release, and the exception that names it.
type Case = (
    &'static str,
    &'static str,
    fn(&mut NewFilesystem),
    &'static str,
);

const REFUSED: &[Case] = &[
    (
        "no name",
        "5.1",
        |r| r.name.clear(),
        "InvalidArgumentException",
    ),
    (
        "long name",
        "5.1",
        |r| r.name = "x".repeat(33),
        "InvalidArgumentException",
    ),
    (
        "slash",
        "5.1",
        |r| r.name = "a/b".to_owned(),
        "InvalidArgumentException",
    ),
    (
        "no bytes",
        "5.1",
        |r| r.total_capacity = 0,
        "InvalidArgumentException",
    ),
    (
        "too many bytes",
        "5.1",
        |r| r.total_capacity = 901,
        "InsufficientCapacityException",
    ),
    (
        "name taken",
        "5.1",
        |r| r.name = "default".to_owned(),
        "AlreadyExistsException",
    ),
    (
        "unknown group",
        "5.1",
        |r| r.group_name = "none".to_owned(),
        "FilesystemGroupDoesNotExistException",
    ),
    (
        "owner before 5.1",
        "5.0.9",
        |r| r.has_permissions = Some(true),
        "InvalidArgumentException",
    ),
    (
        "encrypted without keys",
        "5.1",
        |r| r.encrypted = true,
        "InvalidArgumentException",
    ),
    (
        "encrypted before 4.0",
        "3.14",
        |r| (r.encrypted, r.allow_no_kms) = (true, true),
        "InvalidArgumentException",
    ),
    (
        "half thin",
        "5.1",
        |r| r.thin_provision_min_ssd = Some(1),
        "InvalidArgumentException",
    ),
];

#[test]
fn what_the_array_would_refuse_is_refused() {
    for (case, release, change, expected) in REFUSED {
        let state = state(release);
        let refused = create(&state, &admin(), request(change), &moment()).unwrap_err();
        assert_eq!(refused.exception(), *expected, "{case}: {refused}");
    }
}

#[test]
fn an_own_key_needs_a_vault_and_4_4_1() {
    let own_key = |r: &mut NewFilesystem| {
        r.encrypted = true;
        r.kms_vault_key_identifier = Some("key".to_owned());
    };
    let table = [
        ("4.4.0", "HashiCorpVault", false),
        ("4.4.1", "KMIP", false),
        ("4.4.1", "HashiCorpVault", true),
    ];
    for (release, server, expected) in table {
        let mut state = state(release);
        state.apply(kms(server));
        let made = create(&state, &admin(), request(own_key), &moment());
        assert_eq!(made.is_ok(), expected, "{release} {server}");
    }
}

#[test]
fn a_new_filesystem_is_creating_then_ready_and_takes_capacity() {
    let mut state = state("5.1");
    let before = state.unprovisioned();
    let (changes, made) = create(&state, &admin(), request(|_| {}), &moment()).unwrap();
    for change in changes {
        state.apply(change);
    }
    assert!(made.is_creating(MOMENT_NOW) && !made.is_ready(MOMENT_NOW));
    assert!(made.is_ready(MOMENT_NOW + 10));
    assert_eq!(state.unprovisioned(), before - 100);
    assert_ne!(made.number, state.cluster().next_number);
}

#[test]
fn a_deleted_filesystem_is_removing_then_gone_with_what_is_on_it() {
    let mut state = state("5.1");
    let changes = delete(&state, &admin(), "fs-default", &moment()).unwrap();
    for change in changes {
        state.apply(change);
    }
    let seen = |state: &State| access::filesystem(state, &admin(), "fs-default").cloned();
    assert!(seen(&state).unwrap().is_removing());
    let again = delete(&state, &admin(), "fs-default", &moment()).unwrap_err();
    assert_eq!(again.status(), 409);
    assert_eq!(state.outdated(MOMENT_NOW + 19), []);
    for change in state.outdated(MOMENT_NOW + 20) {
        state.apply(change);
    }
    assert!(seen(&state).is_err());
}

#[test]
fn a_thin_filesystem_whose_thin_fields_are_left_out_becomes_thick() {
    let mut state = state("5.1");
    let thin = |r: &mut NewFilesystem| {
        r.thin_provision_min_ssd = Some(10);
        r.thin_provision_max_ssd = Some(50);
    };
    let (changes, made) = create(&state, &admin(), request(thin), &moment()).unwrap();
    for change in changes {
        state.apply(change);
    }
    assert_eq!(made.thin, Some(Thin { min: 10, max: 50 }));
    let resize = |min, max| {
        let request = FilesystemUpdate {
            total_capacity: Some(200),
            thin_provision_min_ssd: min,
            thin_provision_max_ssd: max,
            auth_required: None,
        };
        update(&state, &admin(), &made.uid, &request, 0, MOMENT_NOW + 10)
    };
    let thin = resize(Some(20), Some(100)).unwrap().1.thin;
    assert_eq!(thin, Some(Thin { min: 20, max: 100 }));
    assert_eq!(resize(None, None).unwrap().1.thin, None);
    assert!(resize(Some(100), Some(20)).is_err());
}

#[test]
fn a_size_below_what_is_used_or_above_what_is_left_is_refused() {
    let state = state("5.1");
    let resize = |total, used| {
        let request = FilesystemUpdate {
            total_capacity: Some(total),
            ..FilesystemUpdate::default()
        };
        update(&state, &admin(), "fs-default", &request, used, MOMENT_NOW)
            .map(|(_, filesystem)| filesystem.total_budget)
    };
    assert_eq!(resize(1000, 60), Ok(1000));
    assert_eq!(resize(60, 60), Ok(60));
    assert_eq!(resize(59, 60).unwrap_err().status(), 400);
    assert_eq!(resize(0, 0).unwrap_err().status(), 400);
    assert_eq!(resize(1001, 60).unwrap_err().status(), 400);
}

#[test]
fn a_filesystem_that_is_exported_stays() {
    let mut state = state("5.1");
    state.apply(Change::Put(Object::NfsPermission(NfsPermission {
        uid: "permission".to_owned(),
        filesystem: "default".to_owned(),
        group: "clients".to_owned(),
        path: "/".to_owned(),
        permission_type: "RW".to_owned(),
        squash_mode: "none".to_owned(),
        anon_uid: "65534".to_owned(),
        anon_gid: "65534".to_owned(),
        supported_versions: vec!["V4".to_owned()],
        priority: 0,
    })));
    let refused = delete(&state, &admin(), "fs-default", &moment()).unwrap_err();
    assert_eq!(refused.status(), 409);
    assert!(refused.to_string().contains("NFS"), "{refused}");
}
