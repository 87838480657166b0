//! What a new cluster has: organization Root, user and password `admin`, and the filesystem `default`.

use std::io;

use super::{Core, fresh_uid};
use crate::store::StoreError;
use crate::weka::Options;
use crate::weka::release::Release;
use crate::weka::state::access::Role;
use crate::weka::state::{Change, Cluster, Filesystem, Object, Organization, ROOT, User};

const DEFAULT_FILESYSTEM_BYTES: u64 = 100 << 30;
const DEFAULT_RELEASE: &str = "5.1.0";

/// Adds what is missing: everything to a new cluster, another version to an old one, directories after a crash.
pub fn complete(core: &Core, options: &Options) -> Result<(), StoreError> {
    let unusable = |source: io::Error| StoreError::Unusable {
        path: options.data.clone(),
        source,
    };
    core.machine.complete(|state| {
        if state.cluster.is_empty() {
            first_objects(options)
        } else {
            upgrade(state.cluster(), options.release.as_ref())
        }
    });
    core.machine.read(|state| {
        for filesystem in state.filesystems.values() {
            core.backing
                .create(&filesystem.uid, filesystem.total_budget)
                .map_err(unusable)?;
        }
        Ok(())
    })
}

fn first_objects(options: &Options) -> Vec<Change> {
    let release = options
        .release
        .clone()
        .or_else(|| DEFAULT_RELEASE.parse().ok())
        .expect("the default release is one");
    let objects = [
        Object::Cluster(Cluster {
            name: options.cluster_name.clone(),
            guid: fresh_uid(),
            release,
            total_bytes: options.capacity,
            filesystem_groups: vec!["default".to_owned()],
            next_number: 1,
        }),
        Object::Organization(Organization {
            id: ROOT,
            name: "Root".to_owned(),
        }),
        Object::User(User {
            uid: fresh_uid(),
            username: "admin".to_owned(),
            password: "admin".to_owned(),
            org_id: ROOT,
            role: Role::ClusterAdmin,
        }),
        Object::Filesystem(Filesystem {
            uid: fresh_uid(),
            number: 0,
            name: "default".to_owned(),
            group_name: "default".to_owned(),
            org_id: ROOT,
            total_budget: DEFAULT_FILESYSTEM_BYTES.min(options.capacity),
            thin: None,
            encrypted: false,
            kms_key_identifier: None,
            kms_namespace: None,
            auth_required: false,
            ready_at: 0,
            removed_at: None,
        }),
    ];
    objects.into_iter().map(Change::Put).collect()
}

/// The change to another version, if one is asked for.
pub fn upgrade(cluster: &Cluster, release: Option<&Release>) -> Vec<Change> {
    match release {
        Some(release) if *release != cluster.release => {
            vec![Change::Put(Object::Cluster(Cluster {
                release: release.clone(),
                ..cluster.clone()
            }))]
        }
        _ => Vec::new(),
    }
}
