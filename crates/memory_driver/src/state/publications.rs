//! Which volume is at which node.

use stowage_csi::access;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::{ControllerPublishVolumeRequest, VolumeCapability};
use tonic::Status;

use super::{Change, Publication, State, missing};
use crate::Profile;
use crate::fault::{Fault, Faults};

impl State {
    pub(crate) fn is_published(&self, id: &str) -> bool {
        self.published_at(id).next().is_some()
    }

    /// Publications of one volume.
    pub(crate) fn published_at(&self, id: &str) -> impl Iterator<Item = &Publication> {
        let from = (id.to_owned(), String::new());
        let rest = self
            .publications
            .range(from..)
            .map(|(_, publication)| publication);
        rest.take_while(move |publication| publication.volume_id == id)
    }

    /// Called twice: it is there already, or `ALREADY_EXISTS` if it is there in another way.
    pub(crate) fn publish(
        &mut self,
        request: ControllerPublishVolumeRequest,
        profile: &Profile,
        faults: &Faults,
    ) -> Result<(), Status> {
        self.find(&request.volume_id)?;
        if !profile.nodes.is_empty() && !profile.nodes.contains(&request.node_id) {
            return Err(missing("node", &request.node_id));
        }
        let wanted = Publication {
            mode: mode(request.volume_capability.as_ref()),
            volume_id: request.volume_id,
            node_id: request.node_id,
            readonly: request.readonly,
        };
        let key = (wanted.volume_id.clone(), wanted.node_id.clone());
        if let Some(known) = self.publications.get(&key) {
            if faults.has(Fault::PublishedOnlyOnce) {
                return Err(Status::already_exists("it is published"));
            }
            if *known != wanted && !faults.has(Fault::AnyReadonly) {
                return Err(Status::already_exists("it is published otherwise"));
            }
            return Ok(());
        }
        if let Some(other) = self.published_at(&wanted.volume_id).next()
            && (is_single_node(other.mode) || is_single_node(wanted.mode))
        {
            let node = &other.node_id;
            return Err(Status::failed_precondition(format!(
                "it is published to `{node}` and can be at one node only"
            )));
        }
        if self.is_full(&wanted.node_id, profile) && !faults.has(Fault::NoLimit) {
            return Err(Status::resource_exhausted("the node is full"));
        }
        self.change(Change::Published(wanted))
    }

    fn is_full(&self, node: &str, profile: &Profile) -> bool {
        let Some(limit) = usize::try_from(profile.volumes_per_node)
            .ok()
            .filter(|limit| *limit > 0)
        else {
            return false;
        };
        let here = self.publications.values().filter(|one| one.node_id == node);
        here.count() >= limit
    }

    /// Called twice: the second call finds nothing, which is success. No node means all nodes.
    pub(crate) fn unpublish(&mut self, id: &str, node: &str) -> Result<(), Status> {
        if self.targets.values().any(|published| published == id) {
            return Err(Status::failed_precondition("a pod uses it"));
        }
        let there = self.published_at(id);
        let gone = there.filter(|one| node.is_empty() || one.node_id == node);
        for publication in gone.cloned().collect::<Vec<_>>() {
            self.change(Change::Unpublished(publication))?;
        }
        Ok(())
    }
}

pub(crate) fn mode(capability: Option<&VolumeCapability>) -> i32 {
    let mode = capability.and_then(|capability| capability.access_mode.as_ref());
    mode.map_or(0, |mode| mode.mode)
}

fn is_single_node(mode: i32) -> bool {
    Mode::try_from(mode).is_ok_and(access::is_single_node)
}
