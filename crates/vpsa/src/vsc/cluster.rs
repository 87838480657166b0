//! The watches.

use std::fmt::Debug;
use std::sync::Arc;

use kube::core::DeserializeGuard;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use stowage_api::vpsa::{
    DeletionPolicy, ExternalVolume, Snapshot, Volume, VolumeAttachment, VolumeStatus, Vpsa,
    VscNode, VscStorageClass,
};
use stowage_kubernetes::reading::{Reading, guarded};
use stowage_kubernetes::store::Cached;
use stowage_kubernetes::watch::{Watched, Watcher};
use tokio_util::sync::CancellationToken;

/// An object as the server sent it.
#[derive(Debug)]
pub struct Kept<K> {
    name: String,
    groups: Vec<String>,
    /// The object.
    pub object: K,
}

impl<K: Send + Sync + 'static> Cached for Kept<K> {
    fn key(&self) -> &str {
        &self.name
    }

    fn groups(&self) -> Vec<String> {
        self.groups.clone()
    }
}

/// The group of what is in a class.
pub fn of_class(name: &str) -> String {
    format!("class/{name}")
}

/// The group of what is on an array.
pub fn on_array(name: &str) -> String {
    format!("array/{name}")
}

/// The group of what is of a volume.
pub fn of_volume(name: &str) -> String {
    format!("volume/{name}")
}

/// The group of what is on a node.
pub fn on_node(name: &str) -> String {
    format!("node/{name}")
}

/// Everything that is watched.
#[derive(Default)]
pub struct Cluster {
    /// VSCStorageClasses.
    pub classes: Arc<Watched<Kept<VscStorageClass>>>,
    /// VPSAs, in groups by class.
    pub arrays: Arc<Watched<Kept<Vpsa>>>,
    /// Volumes, in groups by class and by array.
    pub volumes: Arc<Watched<Kept<Volume>>>,
    /// ExternalVolumes, in groups by array.
    pub external_volumes: Arc<Watched<Kept<ExternalVolume>>>,
    /// Snapshots, in groups by array and by volume.
    pub snapshots: Arc<Watched<Kept<Snapshot>>>,
    /// VolumeAttachments, in groups by volume and by node.
    pub attachments: Arc<Watched<Kept<VolumeAttachment>>>,
    /// VSCNodes.
    pub nodes: Arc<Watched<Kept<VscNode>>>,
}

impl Cluster {
    /// Starts the watches; they end with `stop`. Returns when everything that exists is known.
    pub async fn follow(&self, watcher: &Watcher, stop: &CancellationToken) {
        watcher.follow(&self.classes, keep(|_| Vec::new()), stop);
        let class = |it: &Vpsa| vec![of_class(&it.spec.vsc_storage_class_name)];
        watcher.follow(&self.arrays, keep(class), stop);
        let place = |it: &Volume| {
            let array = it.status.as_ref().map(|it| it.vpsa_id.as_str());
            let class = of_class(&it.spec.vsc_storage_class_name);
            [Some(class), array.and_then(array_group)]
                .into_iter()
                .flatten()
                .collect()
        };
        watcher.follow(&self.volumes, keep(place), stop);
        let array = |it: &ExternalVolume| {
            let array = it.status.as_ref().map(|it| it.vpsa_id.as_str());
            array.and_then(array_group).into_iter().collect()
        };
        watcher.follow(&self.external_volumes, keep(array), stop);
        let place = |it: &Snapshot| {
            let array = it.status.as_ref().and_then(|it| it.vpsa_id.as_deref());
            let volume = of_volume(&it.spec.volume_id);
            [Some(volume), array.and_then(array_group)]
                .into_iter()
                .flatten()
                .collect()
        };
        watcher.follow(&self.snapshots, keep(place), stop);
        let place = |it: &VolumeAttachment| {
            let spec = &it.spec;
            vec![of_volume(&spec.volume_name), on_node(&spec.vsc_node_name)]
        };
        watcher.follow(&self.attachments, keep(place), stop);
        watcher.follow(&self.nodes, keep(|_: &VscNode| Vec::new()), stop);
        self.classes.synced().await;
        self.arrays.synced().await;
        self.volumes.synced().await;
        self.external_volumes.synced().await;
        self.snapshots.synced().await;
        self.attachments.synced().await;
        self.nodes.synced().await;
    }

    /// The members of a class.
    pub fn members(&self, class: &str) -> Vec<Arc<Kept<Vpsa>>> {
        self.arrays.store().in_group(&of_class(class))
    }

    /// How many objects are on an array, whosever they are.
    pub fn objects(&self, array: &str) -> usize {
        let group = on_array(array);
        self.volumes.store().count_in_group(&group)
            + self.external_volumes.store().count_in_group(&group)
            + self.snapshots.store().count_in_group(&group)
    }

    /// Where a volume is, if it is on an array.
    pub fn place(&self, volume: &str) -> Option<VolumeStatus> {
        let kept = self.volumes.store().get(volume)?;
        let status = kept.object.status.clone()?;
        (!status.vpsa_id.is_empty() && !status.id.is_empty()).then_some(status)
    }

    /// How many volumes and snapshots of ours are on an array.
    pub fn users(&self, array: &str) -> usize {
        let group = on_array(array);
        let snapshots = self.snapshots.store().in_group(&group);
        let own = snapshots.iter().filter(|it| is_own(&it.object)).count();
        self.volumes.store().count_in_group(&group) + own
    }
}

/// Whether a volume is known to be on its array.
pub fn is_made(volume: &Volume) -> bool {
    let status = volume.status.as_ref();
    status.is_some_and(|status| !status.id.is_empty())
}

/// Whether deleting a snapshot deletes it on the array.
pub fn is_own(snapshot: &Snapshot) -> bool {
    let policy = snapshot.spec.deletion_policy.as_ref();
    policy.is_none_or(|policy| *policy != DeletionPolicy::Retain)
}

fn array_group(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| on_array(name))
}

/// One malformed object must not stop the whole watch, nor count as deleted.
fn keep<K>(
    groups: impl Fn(&K) -> Vec<String> + Send + 'static,
) -> impl Fn(DeserializeGuard<K>) -> Reading<Kept<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Debug + 'static,
{
    guarded(move |object: K| {
        Some(Kept {
            name: object.name_any(),
            groups: groups(&object),
            object,
        })
    })
}
