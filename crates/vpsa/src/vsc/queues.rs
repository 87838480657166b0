//! The queues between the watches and the work: which change is work for whom.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prometheus_client::registry::Registry;
use stowage_api::vpsa::{VolumeState, Vpsa};
use stowage_kubernetes::queue::{Backoff, Queue};
use stowage_kubernetes::store::Change;
use stowage_service::Process;

use super::cluster::{Cluster, of_class};

/// Where work waits, by the names of objects.
#[derive(Clone)]
pub(super) struct Queues {
    pub arrays: Queue,
    pub classes: Queue,
    pub volumes: Queue,
}

impl Queues {
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
        }
    }

    /// Adds what changes, from now on.
    pub fn listen(&self, cluster: &Arc<Cluster>) {
        self.listen_to_arrays(cluster);
        self.listen_to_classes(cluster);
        self.listen_to_volumes(cluster);
        let queues = self.clone();
        cluster.snapshots.listen(move |change| {
            if let Change::Gone(last) = change {
                let status = last.object.status.as_ref();
                let array = status.and_then(|it| it.vpsa_id.as_deref());
                array.inspect(|array| queues.arrays.add(*array));
                queues.volumes.add(last.object.spec.volume_id.as_str());
            }
        });
        let queues = self.clone();
        cluster.attachments.listen(move |change| {
            if let Change::Gone(last) = change {
                queues.volumes.add(last.object.spec.volume_name.as_str());
            }
        });
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
            let state = |array: &Vpsa| array.status.as_ref().map(|it| it.state.clone());
            let is_news = match change {
                Change::Set { old: Some(old), .. } => state(&old.object) != state(new),
                _ => true,
            };
            // Volumes that wait for an array need not wait any longer.
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
        let queues = self.clone();
        cluster.volumes.listen(move |change| {
            let volume = &change.object().object;
            if wants_work(change, |it| &it.object.metadata) {
                queues.volumes.add(name(&volume.metadata));
            }
            // An array and a class that are to go wait for those who use them.
            if let Change::Gone(_) = change {
                queues
                    .classes
                    .add(volume.spec.vsc_storage_class_name.as_str());
                let status = volume.status.as_ref();
                status.inspect(|status| queues.arrays.add(status.vpsa_id.as_str()));
            }
        });
    }
}

fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Whether a change is more than a status, which we wrote ourselves.
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
        || old.finalizers != new.finalizers
}
