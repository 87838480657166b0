//! What the cluster knows.
//!
//! [`State`] is plain data. The modules below it decide: each takes the state, a request and the time, and returns the
//! [`Change`]s to make or a [`Refusal`]; none of them does I/O. The [`store`](crate::store) makes changes durable.
//!
//! An object that is being removed is there, and in the way of another of its name, until somebody carried the removal out.
//!
//! Time is in milliseconds since 1970. Nothing has a timer: a filesystem that is being created, a quota that is being
//! added or a snapshot that is being removed carries the moment at which it will be done.

pub mod access;
pub mod filesystems;
pub mod lockout;
pub mod mounts;
pub mod nfs;
pub mod objects;
pub mod quotas;
pub mod refusal;
pub mod snapshots;
#[cfg(test)]
mod testing;
pub mod tokens;

use std::collections::BTreeMap;

pub use objects::{
    ClientGroup, Cluster, Container, Filesystem, InterfaceGroup, Kms, NfsPermission, Organization,
    Process, Quota, Snapshot, Token, User,
};
pub use refusal::Refusal;

pub use crate::moment::Millis;
use crate::store::kinds;

/// The organization that every cluster has.
pub const ROOT: u32 = 0;

kinds! {
    Cluster Cluster cluster,
    Organization Organization organizations,
    User User users,
    Token Token tokens,
    Filesystem Filesystem filesystems,
    Quota Quota quotas,
    Snapshot Snapshot snapshots,
    Container Container containers,
    Process Process processes,
    Kms Kms kms,
    InterfaceGroup InterfaceGroup interface_groups,
    ClientGroup ClientGroup client_groups,
    NfsPermission NfsPermission nfs_permissions,
}

impl State {
    /// The cluster itself.
    ///
    /// # Panics
    /// Never on an opened state: the store makes a cluster in an empty directory.
    pub fn cluster(&self) -> &Cluster {
        self.cluster.values().next().expect("a cluster")
    }

    /// Bytes that no filesystem has.
    pub fn unprovisioned(&self) -> u64 {
        let taken: u64 = self.filesystems.values().map(|f| f.total_budget).sum();
        self.cluster().total_bytes.saturating_sub(taken)
    }

    /// Whether quotas may be set on directories that are not empty.
    pub fn has_data_services(&self) -> bool {
        self.processes
            .values()
            .any(|p| p.status == "UP" && p.roles.iter().any(|role| role == "DATASERV"))
    }

    /// What is done with being removed, and tokens that nobody can use any more.
    pub fn outdated(&self, now: Millis) -> Vec<Change> {
        fn gone<T>(
            objects: &BTreeMap<String, T>,
            kind: Kind,
            at: impl Fn(&T) -> Option<Millis>,
            now: Millis,
        ) -> impl Iterator<Item = Change> {
            objects
                .iter()
                .filter(move |(_, object)| at(object).is_some_and(|at| at <= now))
                .map(move |(key, _)| Change::Remove {
                    kind,
                    key: key.clone(),
                })
        }
        gone(&self.filesystems, Kind::Filesystem, |f| f.removed_at, now)
            .chain(gone(&self.snapshots, Kind::Snapshot, |s| s.removed_at, now))
            .chain(gone(&self.quotas, Kind::Quota, |q| q.removed_at, now))
            .chain(gone(&self.tokens, Kind::Token, |t| Some(t.expires_at), now))
            .collect()
    }
}
