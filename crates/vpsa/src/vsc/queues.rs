//! The queues between the watches and the work: which change is work for whom.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prometheus_client::registry::Registry;
use stowage_api::vpsa::{FINALIZER, IscsiStatus, Volume, VolumeAttachment, VolumeState, Vpsa};
use stowage_kubernetes::queue::{Backoff, Queue};
use stowage_kubernetes::store::Change;
use stowage_service::Process;

use super::cluster::{Cluster, of_class, of_volume, on_node};

/// Where work waits, by the names of objects.
#[derive(Clone)]
pub struct Queues {
    /// Of VPSAs.
    pub arrays: Queue,
    /// Of VSCStorageClasses.
    pub classes: Queue,
    /// Of Volumes.
    pub volumes: Queue,
    /// Of Snapshots.
    pub snapshots: Queue,
    /// Of VolumeAttachments.
    pub attachments: Queue,
}

impl Queues {
    /// Empty.
    pub fn new(interval: Duration, process: &Process) -> Self {
        let backoff = Backoff {
            first: Duration::from_secs(1).min(interval),
            longest: interval,
        };
        let queue = |name| {
            let make = |registry: &mut Registry| Queue::new(name, backoff, registry);
            process.metrics.with_registry(make)
        };
        Self {
            arrays: queue("vsc-vpsa"),
            classes: queue("vsc-class"),
            volumes: queue("vsc-volume"),
            snapshots: queue("vsc-snapshot"),
            attachments: queue("vsc-attachment"),
        }
    }

    /// Adds what changes, from now on.
    pub fn listen(&self, cluster: &Arc<Cluster>) {
        self.listen_to_arrays(cluster);
        self.listen_to_classes(cluster);
        self.listen_to_volumes(cluster);
        self.listen_to_snapshots(cluster);
        self.listen_to_attachments(cluster);
        self.listen_to_nodes(cluster);
    }

    fn listen_to_arrays(&self, cluster: &Arc<Cluster>) {
        let (queues, all) = (self.clone(), Arc::downgrade(cluster));
        cluster.arrays.listen(move |change| {
            let class = |array: &Vpsa| array.spec.vsc_storage_class_name.clone();
            let new = &change.object().object;
            if let Change::Set { old: Some(old), .. } = change {
                queues.classes.add(class(&old.object));
            }
            queues.classes.add(class(new));
            if wants_work(change, |it| &it.object.metadata) {
                queues.arrays.add(name(&new.metadata));
            }
            let fitness = |array: &Vpsa| {
                let status = array.status.as_ref();
                status.map(|it| (it.state.clone(), it.capacity.clone()))
            };
            let is_news = is_news(change, |it| fitness(&it.object));
            // Volumes that wait for an array, or for room on one, need not wait any longer.
            if let (true, Some(all)) = (is_news, all.upgrade()) {
                for volume in all.volumes.store().in_group(&of_class(&class(new))) {
                    let status = volume.object.status.as_ref();
                    if status.is_none_or(|it| it.state != VolumeState::Ready) {
                        queues.volumes.add(name(&volume.object.metadata));
                    }
                }
            }
        });
    }

    fn listen_to_classes(&self, cluster: &Arc<Cluster>) {
        let (queues, all) = (self.clone(), Arc::downgrade(cluster));
        cluster.classes.listen(move |change| {
            let metadata = &change.object().object.metadata;
            if !wants_work(change, |it| &it.object.metadata) {
                return;
            }
            let Some(all) = all.upgrade() else {
                return;
            };
            for member in all.members(name(metadata)) {
                queues.arrays.add(name(&member.object.metadata));
            }
            // Another default may be the only one now, or no longer.
            for class in all.classes.store().all() {
                queues.classes.add(name(&class.object.metadata));
            }
        });
    }

    fn listen_to_volumes(&self, cluster: &Arc<Cluster>) {
        let (queues, all) = (self.clone(), Arc::downgrade(cluster));
        cluster.volumes.listen(move |change| {
            let volume = &change.object().object;
            // Snapshots and attachments may wait for it.
            if let (true, Some(all)) = (is_news(change, |it| state(&it.object)), all.upgrade()) {
                let group = of_volume(name(&volume.metadata));
                for snapshot in all.snapshots.store().in_group(&group) {
                    queues.snapshots.add(name(&snapshot.object.metadata));
                }
                for attachment in all.attachments.store().in_group(&group) {
                    queues.attachments.add(name(&attachment.object.metadata));
                }
            }
            if wants_work(change, |it| &it.object.metadata) {
                queues.volumes.add(name(&volume.metadata));
            }
            // An array and a class that are to go wait for those who use them.
            if let Change::Gone(_) = change {
                queues
                    .classes
                    .add(volume.spec.vsc_storage_class_name.as_str());
                let array = volume.status.as_ref().map(|it| it.vpsa_id.as_str());
                queues.free(all.upgrade(), array);
            }
        });
    }

    fn listen_to_snapshots(&self, cluster: &Arc<Cluster>) {
        let (queues, all) = (self.clone(), Arc::downgrade(cluster));
        cluster.snapshots.listen(move |change| {
            let snapshot = &change.object().object;
            if wants_work(change, |it| &it.object.metadata) {
                queues.snapshots.add(name(&snapshot.metadata));
            }
            // Its volume and its array may wait for it to go.
            if let Change::Gone(_) = change {
                let status = snapshot.status.as_ref();
                let array = status.and_then(|it| it.vpsa_id.as_deref());
                queues.free(all.upgrade(), array);
                queues.volumes.add(snapshot.spec.volume_id.as_str());
            }
        });
    }

    /// One object less is on an array: that is news for one that is to go. What the others have left is looked at soon enough.
    fn free(&self, all: Option<Arc<Cluster>>, array: Option<&str>) {
        let (Some(all), Some(array)) = (all, array) else {
            return;
        };
        let array = all.arrays.store().get(array);
        if let Some(array) = array.filter(|it| it.object.metadata.deletion_timestamp.is_some()) {
            self.arrays.add(name(&array.object.metadata));
        }
    }

    fn listen_to_attachments(&self, cluster: &Arc<Cluster>) {
        let queues = self.clone();
        cluster.attachments.listen(move |change| {
            let attachment = &change.object().object;
            if wants_work(change, |it| &it.object.metadata)
                // The node says that it has a session.
                || is_news(change, |it| session(&it.object))
            {
                queues.attachments.add(name(&attachment.metadata));
            }
            if let Change::Gone(_) = change {
                queues.volumes.add(attachment.spec.volume_name.as_str());
            }
        });
    }

    fn listen_to_nodes(&self, cluster: &Arc<Cluster>) {
        let (queues, all) = (self.clone(), Arc::downgrade(cluster));
        cluster.nodes.listen(move |change| {
            let metadata = &change.object().object.metadata;
            let Some(all) = all
                .upgrade()
                .filter(|_| wants_work(change, |it| &it.object.metadata))
            else {
                return;
            };
            for attachment in all.attachments.store().in_group(&on_node(name(metadata))) {
                queues.attachments.add(name(&attachment.object.metadata));
            }
        });
    }
}

fn state(volume: &Volume) -> Option<VolumeState> {
    volume.status.as_ref().map(|it| it.state.clone())
}

/// What the node says about its session with the array.
fn session(attachment: &VolumeAttachment) -> Option<IscsiStatus> {
    let block = attachment.status.as_ref()?.block.as_ref()?;
    block.iscsi_status.clone()
}

/// Whether a part of an object is not what it was.
fn is_news<T, P: PartialEq>(change: &Change<T>, part: impl Fn(&T) -> P) -> bool {
    match change {
        Change::Set {
            old: Some(old),
            new,
        } => part(old) != part(new),
        _ => true,
    }
}

fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Whether a change is more than we wrote ourselves: a status, or that we keep it.
fn wants_work<T>(change: &Change<T>, metadata: impl Fn(&T) -> &ObjectMeta) -> bool {
    let Change::Set {
        old: Some(old),
        new,
    } = change
    else {
        return true;
    };
    let (old, new) = (metadata(old), metadata(new));
    old.uid != new.uid
        || old.generation != new.generation
        || old.deletion_timestamp != new.deletion_timestamp
        || old.annotations != new.annotations
        || (is_held(old) && !is_held(new))
}

/// Whether we keep an object.
fn is_held(metadata: &ObjectMeta) -> bool {
    let finalizers = metadata.finalizers.iter().flatten();
    finalizers.into_iter().any(|name| name == FINALIZER)
}
