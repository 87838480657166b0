//! What a clone is made from.

use stowage_api::vpsa::{CloneSourceKind, Volume};

use super::Volumes;
use crate::rest::{CgId, SnapshotId};
use crate::vsc::error::StepError;

/// What a clone is made from.
pub(super) struct Source {
    /// The array that it is on, and its copy will be.
    pub array: String,
    /// Its consistency group there.
    pub group: CgId,
    /// The snapshot; as it is now if none.
    pub snapshot: Option<SnapshotId>,
}

impl Volumes {
    /// What a clone is made from.
    pub(super) fn source(&self, volume: &Volume) -> Result<Option<Source>, StepError> {
        let Some(source) = &volume.spec.clone_source else {
            return Ok(None);
        };
        let missing = |kind: &str| {
            let name = &source.name;
            StepError::Missing(format!(
                "{kind} `{name}`, which it is to be a copy of, is not there or not ready"
            ))
        };
        match source.kind {
            CloneSourceKind::Snapshot => {
                let kept = self.context.cluster.snapshots.store().get(&source.name);
                let status = kept.and_then(|it| it.object.status.clone());
                let found = status.and_then(|status| {
                    Some(Source {
                        array: status.vpsa_id?,
                        group: status.cg_id?.parse().ok()?,
                        snapshot: Some(status.vpsa_snapshot_id?.parse().ok()?),
                    })
                });
                found.map(Some).ok_or_else(|| missing("Snapshot"))
            }
            CloneSourceKind::Volume | CloneSourceKind::Other(_) => {
                let kept = self.context.cluster.volumes.store().get(&source.name);
                let status = kept.and_then(|it| it.object.status.clone());
                let found = status.and_then(|status| {
                    Some(Source {
                        array: status.vpsa_id,
                        group: status.cg_id.parse().ok()?,
                        snapshot: None,
                    })
                });
                found.map(Some).ok_or_else(|| missing("Volume"))
            }
        }
    }
}
