//! Who may do what.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Filesystem, Refusal, State, User};
use crate::weka::release::{Feature, Release};

/// The role of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the cluster's own words")]
pub enum Role {
    ClusterAdmin,
    OrgAdmin,
    TenantAdmin,
    CSI,
    Regular,
    ReadOnly,
    S3,
}

/// What a role may do or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// `users/whoami` and what every client asks after it logged in.
    Know,
    /// Everything that changes nothing and hands out nothing.
    Read,
    /// Filesystems: create, change, delete.
    WriteFilesystems,
    /// Snapshots: create, delete.
    WriteSnapshots,
    /// Quotas: set, remove.
    WriteQuotas,
    /// Mount tokens.
    Mount,
    /// Inode numbers of paths.
    ResolvePaths,
    /// Client groups and permissions of NFS.
    WriteNfs,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Know => "log in",
            Self::Read => "read the configuration",
            Self::WriteFilesystems => "create, change or delete filesystems",
            Self::WriteSnapshots => "create or delete snapshots",
            Self::WriteQuotas => "set or remove quotas",
            Self::Mount => "get a mount token",
            Self::ResolvePaths => "resolve paths to inodes",
            Self::WriteNfs => "change NFS client groups or permissions",
        })
    }
}

const ADMINS: &[Role] = &[Role::ClusterAdmin, Role::OrgAdmin, Role::TenantAdmin];
const WRITERS: &[Role] = &[
    Role::ClusterAdmin,
    Role::OrgAdmin,
    Role::TenantAdmin,
    Role::CSI,
];

impl Right {
    /// The roles that have it.
    pub fn holders(self, release: &Release) -> &'static [Role] {
        match self {
            Self::Know => &[
                Role::ClusterAdmin,
                Role::OrgAdmin,
                Role::TenantAdmin,
                Role::CSI,
                Role::Regular,
                Role::ReadOnly,
                Role::S3,
            ],
            Self::Read => &[
                Role::ClusterAdmin,
                Role::OrgAdmin,
                Role::TenantAdmin,
                Role::CSI,
                Role::ReadOnly,
            ],
            Self::Mount => &[
                Role::ClusterAdmin,
                Role::OrgAdmin,
                Role::TenantAdmin,
                Role::CSI,
                Role::Regular,
            ],
            Self::ResolvePaths if !release.has(Feature::ResolvePathForCsiRole) => ADMINS,
            Self::ResolvePaths
            | Self::WriteFilesystems
            | Self::WriteSnapshots
            | Self::WriteQuotas
            | Self::WriteNfs => WRITERS,
        }
    }
}

/// Refuses a user whose role lacks a right.
pub fn check(state: &State, user: &User, right: Right) -> Result<(), Refusal> {
    let release = &state.cluster().release;
    if right.holders(release).contains(&user.role) {
        return Ok(());
    }
    Err(Refusal::Forbidden {
        user: user.username.clone(),
        role: user.role,
        right,
        release: release.clone(),
    })
}

/// The filesystem with this identity, if it is there and the user's organization has it.
///
/// Another organization's filesystem is treated as if it did not exist.
pub fn filesystem<'a>(state: &'a State, user: &User, uid: &str) -> Result<&'a Filesystem, Refusal> {
    state
        .filesystems
        .get(uid)
        .filter(|filesystem| filesystem.org_id == user.org_id)
        .ok_or_else(|| Refusal::FilesystemMissing(uid.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_follow_the_role() {
        use Role::{CSI, ClusterAdmin, OrgAdmin, ReadOnly, Regular, S3, TenantAdmin};
        let new: Release = "5.1".parse().unwrap();
        let table: [(Right, &[Role], &[Role]); 5] = [
            (Right::Know, &[S3, Regular, ReadOnly], &[]),
            (Right::Read, &[ReadOnly, CSI], &[Regular, S3]),
            (
                Right::WriteFilesystems,
                &[ClusterAdmin, OrgAdmin, TenantAdmin, CSI],
                &[Regular, ReadOnly, S3],
            ),
            (Right::Mount, &[Regular, CSI], &[ReadOnly, S3]),
            (Right::ResolvePaths, &[CSI, OrgAdmin], &[ReadOnly]),
        ];
        for (right, with, without) in table {
            for role in with {
                assert!(right.holders(&new).contains(role), "{role:?}: {right}");
            }
            for role in without {
                assert!(!right.holders(&new).contains(role), "{role:?}: {right}");
            }
        }
        let old: Release = "4.4.6".parse().unwrap();
        assert!(!Right::ResolvePaths.holders(&old).contains(&CSI));
    }
}
