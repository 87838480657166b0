//! Who has to look again, because an array has something else than was recorded. One list of everything on the array every
//! few minutes takes the place of a look at each object.

use std::collections::HashMap;

use kube::ResourceExt as _;
use stowage_api::vpsa::{Volume, VolumeAttachment, VolumeState};

use super::facts::Content;
use crate::rest::wire::{Server, Volume as ArrayVolume};
use crate::vsc::attachment::server::Host;
use crate::vsc::cluster::{Cluster, of_volume, on_array};
use crate::vsc::volume::reconcile::capacity;

/// The Volumes that an array does not have as they were recorded.
pub fn volumes(cluster: &Cluster, array: &str, content: &Content) -> Vec<String> {
    let found = by_id(content);
    let recorded = cluster.volumes.store().in_group(&on_array(array));
    let differs = |volume: &Volume| {
        let Some(status) = &volume.status else {
            return false;
        };
        let is_made = status.state == VolumeState::Ready && !status.id.is_empty();
        is_made
            && found.get(status.id.as_str()).is_none_or(|found| {
                !found.is_usable()
                    || found.display_name != volume.spec.display_name
                    || status.capacity != Some(capacity(found))
            })
    };
    let recorded = recorded.iter().filter(|it| differs(&it.object));
    recorded.map(|it| it.object.name_any()).collect()
}

/// The VolumeAttachments that an array does not have as they were recorded.
pub fn attachments(cluster: &Cluster, array: &str, content: &Content) -> Vec<String> {
    let servers: HashMap<&str, &Server> = content
        .servers
        .iter()
        .map(|it| (it.id.as_str(), it))
        .collect();
    let is_kept = |volume: &ArrayVolume, attachment: &VolumeAttachment| {
        let status = attachment.status.as_ref();
        let Some(server) = status.and_then(|it| it.vpsa_server_id.as_deref()) else {
            return false;
        };
        let node = cluster.nodes.store().get(&attachment.spec.vsc_node_name);
        let is_attached = volume.servers.iter().any(|it| it.as_str() == server);
        let is_same = servers.get(server).zip(node).is_some_and(|(server, node)| {
            Host::of(&node.object.spec).is_reached_by(server, &attachment.spec.attach_type)
        });
        is_attached && is_same
    };
    let found = by_id(content);
    let mut differing = Vec::new();
    for volume in cluster.volumes.store().in_group(&on_array(array)) {
        let status = volume.object.status.as_ref();
        let found = status.and_then(|it| found.get(it.id.as_str()));
        let group = of_volume(&volume.object.name_any());
        for attachment in cluster.attachments.store().in_group(&group) {
            if found.is_none_or(|found| !is_kept(found, &attachment.object)) {
                differing.push(attachment.object.name_any());
            }
        }
    }
    differing
}

fn by_id(content: &Content) -> HashMap<&str, &ArrayVolume> {
    let volumes = content.volumes.iter();
    volumes.map(|it| (it.id.as_str(), it)).collect()
}
