//! Clusters for tests of decisions.

use super::access::Role;
use super::filesystems::{Delays, Moment};
use super::{
    Change, Cluster, Filesystem, Kms, Millis, Object, Organization, Process, ROOT, State, User,
};

/// When [`moment`] is.
pub const MOMENT_NOW: Millis = 1_000_000;

/// A creation takes 10 ms, a removal 20, a quota 30.
pub fn moment() -> Moment {
    Moment {
        now: MOMENT_NOW,
        uid: "fresh-uid".to_owned(),
        delays: Delays {
            creation: 10,
            removal: 20,
            quota: Some(30),
        },
    }
}

/// A cluster of 1000 bytes with the filesystem `default` of 100.
pub fn state(release: &str) -> State {
    let mut state = State::default();
    let objects = [
        Object::Cluster(Cluster {
            name: "test".to_owned(),
            guid: "guid".to_owned(),
            release: release.parse().unwrap(),
            total_bytes: 1000,
            filesystem_groups: vec!["default".to_owned()],
            next_number: 5,
        }),
        organization(ROOT, "Root"),
        organization(1, "tenant"),
        Object::User(admin()),
        Object::User(outsider()),
        Object::Filesystem(Filesystem {
            uid: "fs-default".to_owned(),
            number: 0,
            name: "default".to_owned(),
            group_name: "default".to_owned(),
            org_id: ROOT,
            total_budget: 100,
            thin: None,
            encrypted: false,
            kms_key_identifier: None,
            kms_namespace: None,
            auth_required: false,
            ready_at: 0,
            removed_at: None,
        }),
    ];
    for object in objects {
        state.apply(Change::Put(object));
    }
    state
}

/// An administrator of Root.
pub fn admin() -> User {
    user("admin", ROOT, Role::ClusterAdmin)
}

/// An administrator of another organization.
pub fn outsider() -> User {
    user("outsider", 1, Role::OrgAdmin)
}

/// A process that counts files in directories.
pub fn data_services() -> Change {
    Change::Put(Object::Process(Process {
        uid: "dataserv".to_owned(),
        hostname: "host".to_owned(),
        mode: "backend".to_owned(),
        roles: vec!["DATASERV".to_owned()],
        ips: Vec::new(),
        mgmt_port: 0,
        status: "UP".to_owned(),
    }))
}

/// A key management server.
pub fn kms(kind: &str) -> Change {
    Change::Put(Object::Kms(Kms {
        kms_type: kind.to_owned(),
        params: serde_json::Map::new(),
    }))
}

fn user(name: &str, org_id: u32, role: Role) -> User {
    User {
        uid: format!("user-{name}"),
        username: name.to_owned(),
        password: "secret".to_owned(),
        org_id,
        role,
    }
}

fn organization(id: u32, name: &str) -> Object {
    Object::Organization(Organization {
        id,
        name: name.to_owned(),
    })
}
