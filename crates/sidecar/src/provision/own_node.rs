//! Whether this node takes a claim that any node may take, where there is a controller on every node.
//!
//! Before a node writes its name on such a claim it looks whether the volume can be made there: whether the class allows
//! the node, whether what is to be copied is there, and whether there is room. What it takes in vain it must give back,
//! and all others begin anew.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, TopologySelectorTerm};
use kube::{Api, ResourceExt as _};
use stowage_api::snapshot::names::MANAGED_BY;
use stowage_api::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_csi::proto::csi::{GetCapacityRequest, Topology};

use super::plan::{Planner, Refusal, Step, size_of};
use super::selected_node::jitter;
use super::topology::Accessibility;
use crate::args::OwnNode;
use crate::cluster::claim::{Claim, Original};
use crate::cluster::class::Class;
use crate::cluster::volume::Volume;
use crate::intent::Segment;

/// Where what is to be copied is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Here,
    Elsewhere,
    /// Nobody says, or it is everywhere.
    Unknown,
}

impl Planner {
    /// What this node does about a claim that names no node. Called twice: a node that has waited takes it.
    pub(super) async fn take(
        &self,
        claim: &Claim,
        class: &Class,
        own: &OwnNode,
    ) -> Result<Step, Refusal> {
        if !self.is_allowed(class, &own.name).await? {
            return Ok(Step::Rest);
        }
        if let Some(pause) = self.pause(claim, own).await? {
            return Err(Refusal::NotYet(pause));
        }
        self.check_room(claim, class).await?;
        Ok(Step::TakeNode(own.name.clone()))
    }

    async fn is_allowed(&self, class: &Class, node: &str) -> Result<bool, Refusal> {
        if class.allowed_topologies.is_empty() {
            return Ok(true);
        }
        let api = Api::<Node>::all(self.context.client.clone());
        let node = api.get_metadata(node).await;
        let node = node.map_err(|error| Refusal::Unreadable(Box::new(error)))?;
        let labels = node.labels();
        Ok(class
            .allowed_topologies
            .iter()
            .any(|term| matches(term, labels)))
    }

    /// How long to wait before taking a claim that copies something: those without a source have waited already.
    async fn pause(&self, claim: &Claim, own: &OwnNode) -> Result<Option<Duration>, Refusal> {
        let (Some(original), Some(delays)) = (claim.copies(), own.immediate) else {
            return Ok(None);
        };
        if self.deferred.lock().contains(&claim.uid) {
            return Ok(None);
        }
        let pause = match self.place(original, &own.name).await? {
            Where::Here => return Ok(None),
            Where::Unknown => jitter(delays),
            // Only if the node that has it does not take it.
            Where::Elsewhere => delays.1,
        };
        self.deferred.lock().insert(claim.uid.clone());
        Ok(Some(pause))
    }

    async fn place(&self, original: Original<'_>, node: &str) -> Result<Where, Refusal> {
        let client = &self.context.client;
        let unreadable = |error| Refusal::Unreadable(Box::new(error));
        let volumes = self.context.cluster.volumes.store();
        match original {
            Original::Claim { namespace, name } => {
                let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
                let claim = api.get_opt(name).await.map_err(unreadable)?;
                let volume = claim.and_then(|claim| claim.spec?.volume_name);
                let volume = volume.and_then(|name| volumes.get(&name));
                Ok(self.place_of(volume.as_deref()))
            }
            Original::Snapshot { .. } if !self.context.server.snapshots => Ok(Where::Unknown),
            Original::Snapshot { namespace, name } => {
                let api = Api::<VolumeSnapshot>::namespaced(client.clone(), namespace);
                let snapshot = api.get_opt(name).await.map_err(unreadable)?;
                let bound = snapshot.and_then(|one| one.status?.bound_volume_snapshot_content_name);
                let Some(bound) = bound else {
                    return Ok(Where::Unknown);
                };
                let api = Api::<VolumeSnapshotContent>::all(client.clone());
                let Some(content) = api.get_opt(&bound).await.map_err(unreadable)? else {
                    return Ok(Where::Unknown);
                };
                if let Some(keeper) = content.labels().get(MANAGED_BY) {
                    return Ok(if keeper == node {
                        Where::Here
                    } else {
                        Where::Elsewhere
                    });
                }
                let handle = content.spec.source.volume_handle;
                let mut all = volumes.all().into_iter();
                let volume = all.find(|one| Some(&one.csi.volume_handle) == handle.as_ref());
                Ok(self.place_of(volume.as_deref()))
            }
        }
    }

    fn place_of(&self, volume: Option<&Volume>) -> Where {
        let affinity = volume.and_then(|volume| volume.affinity.as_ref());
        match (affinity, self.own_segment()) {
            (Some(affinity), Some(own)) if affinity.includes(own) => Where::Here,
            (Some(_), Some(_)) => Where::Elsewhere,
            _ => Where::Unknown,
        }
    }

    fn own_segment(&self) -> Option<&Segment> {
        match &self.accessibility {
            Accessibility::OwnNode(segment) => segment.as_ref(),
            Accessibility::Everywhere | Accessibility::Segments(_) => None,
        }
    }

    /// Asks the driver for the room on this node. One that cannot say is tried.
    async fn check_room(&self, claim: &Claim, class: &Class) -> Result<(), Refusal> {
        let driver = &self.context.driver;
        if !driver.capabilities().get_capacity() {
            return Ok(());
        }
        let asked = size_of(claim)?;
        let timeout = self.context.settings.provision.timeout;
        let request = GetCapacityRequest {
            volume_capabilities: Vec::new(),
            parameters: class.parameters.clone(),
            accessible_topology: self.own_segment().map(|segment| Topology {
                segments: segment.clone(),
            }),
        };
        let mut controller = ControllerClient::new(driver.connection().with_timeout(timeout));
        let Ok(answer) = controller.get_capacity(request).await else {
            return Ok(());
        };
        let available = answer.into_inner().available_capacity;
        if asked > available {
            return Err(Refusal::NoRoom { asked, available });
        }
        Ok(())
    }
}

/// Whether a node with these labels is one that a class allows.
fn matches(
    term: &TopologySelectorTerm,
    labels: &std::collections::BTreeMap<String, String>,
) -> bool {
    let mut expressions = term.match_label_expressions.iter().flatten();
    expressions.all(|one| {
        labels
            .get(&one.key)
            .is_some_and(|value| one.values.contains(value))
    })
}
