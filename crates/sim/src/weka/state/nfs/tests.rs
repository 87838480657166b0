use super::*;
use crate::weka::state::InterfaceGroup;
use crate::weka::state::testing::{MOMENT_NOW, admin, moment, state};

fn exported(rule: &str, change: impl FnOnce(&mut NfsPermission)) -> State {
    let mut state = state("5.1");
    state.apply(Change::Put(Object::InterfaceGroup(InterfaceGroup {
        uid: "interface".to_owned(),
        name: "nfs".to_owned(),
        kind: "NFS".to_owned(),
        ips: vec!["10.0.0.100".to_owned()],
        status: "OK".to_owned(),
        gateway: String::new(),
        subnet_mask: String::new(),
    })));
    let new = NewClientGroup {
        name: "clients".to_owned(),
    };
    let (changes, group) = create_group(&state, new, &moment()).unwrap();
    for change in changes {
        state.apply(change);
    }
    let new = NewRule {
        ip: Some(rule.to_owned()),
        dns: None,
    };
    let (changes, _) = create_rule(&state, &group.uid, new, &moment()).unwrap();
    for change in changes {
        state.apply(change);
    }
    let new = serde_json::json!({
        "filesystem": "default", "group": "clients", "supported_versions": ["V4"],
    });
    let new = serde_json::from_value(new).unwrap();
    let (_, mut permission) = create_permission(&state, &admin(), new, &moment()).unwrap();
    change(&mut permission);
    state.apply(Change::Put(Object::NfsPermission(permission)));
    state
}

fn wanted(export: &str, server: &str, version: &str) -> Wanted {
    Wanted {
        export: export.to_owned(),
        server: server.parse().unwrap(),
        version: version.to_owned(),
    }
}

#[test]
fn only_those_with_permission_mount_what_is_exported() {
    let default = wanted("/default", "10.0.0.100", "4.1");
    let may = |state: &State, wanted: &Wanted, client: &str| {
        access(state, wanted, client.parse().unwrap(), MOMENT_NOW).map(|access| access.read_only)
    };
    let denied = Err(DENIED.to_owned());
    let one = exported("10.0.0.1/255.255.255.255", |_| {});
    assert_eq!(may(&one, &default, "10.0.0.1"), Ok(false));
    assert_eq!(may(&one, &default, "10.0.0.2"), denied);
    assert_eq!(may(&one, &default, "fd00::1"), denied);
    let network = exported("10.0.0.0/255.255.255.0", |_| {});
    assert_eq!(may(&network, &default, "10.0.0.2"), Ok(false));
    let network = exported("10.0.0.0/24", |it| it.permission_type = "RO".to_owned());
    assert_eq!(may(&network, &default, "10.0.0.2"), Ok(true));
    assert_eq!(may(&network, &default, "10.0.1.2"), denied);
    let old = wanted("/default", "10.0.0.100", "3");
    assert_eq!(may(&network, &old, "10.0.0.2"), denied);
    let part = exported("10.0.0.0/24", |it| it.path = "/part".to_owned());
    assert_eq!(may(&part, &default, "10.0.0.2"), denied);
    for (export, server) in [("/none", "10.0.0.100"), ("/default", "10.0.0.99")] {
        assert!(may(&network, &wanted(export, server, "4"), "10.0.0.2").is_err());
    }
}
