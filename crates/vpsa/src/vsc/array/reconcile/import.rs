//! Keeps records of what is on an array already.

use std::collections::{HashMap, HashSet};

use kube::ResourceExt as _;
use kube::core::object::HasStatus;
use stowage_api::vpsa::{DeletionPolicy, ExternalVolume, Snapshot as SnapshotRecord, Vpsa};
use stowage_kubernetes::object_error::ObjectError;

use super::Arrays;
use crate::rest::wire::{Snapshot, Volume};
use crate::vsc::array::facts::Content;
use crate::vsc::array::import;
use crate::vsc::cluster::{of_volume, on_array};
use crate::vsc::context::Conditioned;
use crate::vsc::write::Own;

impl Arrays {
    /// Makes a record for each volume and each snapshot that has none, and removes those of what is gone. Called twice: all
    /// have one.
    pub(super) async fn import(&self, array: &Vpsa, content: &Content) -> Result<(), ObjectError> {
        let (name, class) = (array.name_any(), &array.spec.vsc_storage_class_name);
        // First: the names of those that are gone can be had by others.
        self.forget(&name, content).await?;
        let mut known = self.known_volumes(&name);
        for volume in &content.volumes {
            if known.contains_key(volume.id.as_str()) || self.is_own_volume(volume) {
                continue;
            }
            if let Some(record) = self.make_volume(&name, class, volume).await? {
                known.insert(volume.id.to_string(), record);
            }
        }
        for snapshot in &content.snapshots {
            let volume = snapshot.volume.as_ref();
            let Some(volume) = volume.and_then(|it| known.get(it.as_str())) else {
                continue;
            };
            // Of those that are being taken it is not known yet how they end.
            if snapshot.is_usable() && !self.is_known_snapshot(&name, volume, snapshot) {
                let record = import::snapshot(&name, volume, snapshot);
                self.make(&record).await?;
            }
        }
        Ok(())
    }

    /// Removes the records of what is not on the array any more. Called twice: they are gone.
    pub(super) async fn forget(&self, array: &str, content: &Content) -> Result<(), ObjectError> {
        let (cluster, writer) = (&self.context.cluster, &self.context.writer);
        let group = on_array(array);
        let there: HashSet<&str> = content.volumes.iter().map(|it| it.id.as_str()).collect();
        for kept in cluster.external_volumes.store().in_group(&group) {
            let id = kept.object.status.as_ref().map(|status| status.id.as_str());
            if id.is_some_and(|id| !there.contains(id)) {
                let name = kept.object.name_any();
                writer.delete::<ExternalVolume>(&name).await?;
            }
        }
        let there: HashSet<&str> = content.snapshots.iter().map(|it| it.id.as_str()).collect();
        for kept in cluster.snapshots.store().in_group(&group) {
            let (name, status) = (kept.object.name_any(), kept.object.status.as_ref());
            let id = status.and_then(|status| status.vpsa_snapshot_id.as_deref());
            // Those of users have names of their own, and say what became of them.
            if id.is_some_and(|id| !there.contains(id) && import::name(array, id) == name) {
                writer.delete::<SnapshotRecord>(&name).await?;
            }
        }
        Ok(())
    }

    /// Makes the record of a volume, under the first of its names that is not another's; returns which.
    async fn make_volume(
        &self,
        array: &str,
        class: &str,
        volume: &Volume,
    ) -> Result<Option<String>, ObjectError> {
        let place = |record: &ExternalVolume| {
            let status = record.status.as_ref();
            status.map(|it| (it.vpsa_id.clone(), it.id.clone()))
        };
        for record in import::volume(array, class, volume) {
            let made = self.make(&record).await?;
            if made.is_some_and(|made| place(&made) == place(&record)) {
                return Ok(Some(record.name_any()));
            }
        }
        tracing::warn!(vpsa = array, volume = %volume.id, "A volume has no record: its names are taken.");
        Ok(None)
    }

    /// Makes a record with its status. One that is there keeps what it says. Returns what is there.
    async fn make<K>(&self, record: &K) -> Result<Option<K>, ObjectError>
    where
        K: Own + HasStatus,
        K::Status: Conditioned,
    {
        let made = match self.context.writer.create(record).await? {
            Some(made) => Some(made),
            None => self.context.writer.read(&record.name_any()).await?,
        };
        match (made, record.status()) {
            (Some(made), Some(status)) if made.status().is_none() => {
                Ok(Some(self.context.writer.set_status(&made, status).await?))
            }
            (made, _) => Ok(made),
        }
    }

    /// The volumes of an array that have an object: its name by their identity.
    fn known_volumes(&self, array: &str) -> HashMap<String, String> {
        let (cluster, group) = (&self.context.cluster, on_array(array));
        let own = cluster.volumes.store().in_group(&group);
        let others = cluster.external_volumes.store().in_group(&group);
        let own = own
            .iter()
            .map(|it| (&it.object.status, it.object.name_any()));
        let others = others
            .iter()
            .map(|it| (&it.object.status, it.object.name_any()));
        let all = own.chain(others);
        all.filter_map(|(status, name)| Some((status.as_ref()?.id.clone(), name)))
            .collect()
    }

    /// Whether a Volume has this name on the array: it may not know its identity there yet.
    fn is_own_volume(&self, volume: &Volume) -> bool {
        let (volumes, name) = (self.context.cluster.volumes.store(), &volume.display_name);
        // Almost always the name of the object, too.
        volumes.get(name).is_some()
            || volumes
                .all()
                .iter()
                .any(|it| it.object.spec.display_name == *name)
    }

    /// Whether a snapshot has an object, which may not know its identity on the array yet.
    fn is_known_snapshot(&self, array: &str, volume: &str, snapshot: &Snapshot) -> bool {
        let snapshots = self.context.cluster.snapshots.store();
        let is_it = |it: &SnapshotRecord| {
            let status = it.status.as_ref();
            let id = status.and_then(|status| status.vpsa_snapshot_id.as_deref());
            id == Some(snapshot.id.as_str())
        };
        let has_name = |it: &SnapshotRecord| {
            let is_own = it.spec.deletion_policy != Some(DeletionPolicy::Retain);
            is_own && it.spec.display_name == snapshot.display_name
        };
        let here = snapshots.in_group(&on_array(array));
        let of_it = snapshots.in_group(&of_volume(volume));
        here.iter().any(|it| is_it(&it.object)) || of_it.iter().any(|it| has_name(&it.object))
    }
}
