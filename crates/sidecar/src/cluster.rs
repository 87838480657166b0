//! The shared view of the cluster: each kind is watched once, whatever the number of roles that read it.
//!
//! | file | holds |
//! |---|---|
//! | [`wire`] | what is decoded of the objects that the server sends |
//! | [`store`] | the objects of one kind, found by key or group |
//! | [`watch`] | the task that keeps a store current and tells listeners |
//! | [`claim`], [`volume`], [`class`], [`attachment`], [`node`], [`pod`], [`content`] | the kinds, reduced to what is used |
//!
//! Objects of other drivers are not kept.

pub mod attachment;
pub mod claim;
pub mod class;
pub mod content;
pub mod node;
pub mod pod;
pub mod store;
pub mod volume;
pub mod watch;
pub mod wire;

use std::sync::Arc;

use kube::Client;
use stowage_service::{Health, Tasks};
use tokio_util::sync::CancellationToken;

use self::{
    attachment::Attachment,
    claim::Claim,
    class::Class,
    content::{Content, SnapshotClass},
    node::{DriverNode, NodeLabels},
    volume::Volume,
    watch::Watched,
};
use crate::server::Server;

/// Which kinds are watched. Claims and volumes always are.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "a set of kinds")]
pub struct Kinds {
    /// VolumeAttachments.
    pub attachments: bool,
    /// CSINodes.
    pub driver_nodes: bool,
    /// Nodes.
    pub nodes: bool,
    /// VolumeSnapshotContents and VolumeSnapshotClasses.
    pub snapshots: bool,
    /// The same of groups.
    pub group_snapshots: bool,
}

impl Kinds {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            attachments: self.attachments || other.attachments,
            driver_nodes: self.driver_nodes || other.driver_nodes,
            nodes: self.nodes || other.nodes,
            snapshots: self.snapshots || other.snapshots,
            group_snapshots: self.group_snapshots || other.group_snapshots,
        }
    }

    /// What of it the server has. `None`: it lacks what the role is for.
    pub(crate) fn on(self, server: &Server) -> Option<Self> {
        if self.snapshots && !server.snapshots {
            return None;
        }
        Some(Self {
            group_snapshots: self.group_snapshots && server.group_snapshots,
            ..self
        })
    }
}

/// The shared watches.
#[derive(Clone, Default)]
pub struct Cluster {
    /// PersistentVolumeClaims, by uid.
    pub claims: Arc<Watched<Claim>>,
    /// PersistentVolumes of this driver, by name.
    pub volumes: Arc<Watched<Volume>>,
    /// StorageClasses of this driver, by name.
    pub classes: Arc<Watched<Class>>,
    /// VolumeAttachments of this driver, by name.
    pub attachments: Arc<Watched<Attachment>>,
    /// CSINodes with this driver, by name.
    pub driver_nodes: Arc<Watched<DriverNode>>,
    /// Nodes, by name.
    pub nodes: Arc<Watched<NodeLabels>>,
    /// VolumeSnapshotContents of this driver, by name.
    pub contents: Arc<Watched<Content>>,
    /// VolumeSnapshotClasses of this driver, by name.
    pub snapshot_classes: Arc<Watched<SnapshotClass>>,
    /// VolumeGroupSnapshotContents of this driver, by name.
    pub group_contents: Arc<Watched<Content>>,
    /// VolumeGroupSnapshotClasses of this driver, by name.
    pub group_classes: Arc<Watched<SnapshotClass>>,
}

impl Cluster {
    /// Starts the watches; they end with `stop`. Each is a check of its own in `health`, which says what is wrong.
    pub fn start(
        &self,
        client: &Client,
        driver: &str,
        kinds: Kinds,
        (tasks, health): (&Tasks, &Health),
        stop: &CancellationToken,
    ) {
        /// Spawns the watch of one kind.
        macro_rules! follow {
            ($field:ident, $read:expr) => {{
                let driver: Arc<str> = driver.into();
                let watched = Arc::clone(&self.$field);
                let read = move |wire| $read(wire, &driver);
                let name = concat!("watch ", stringify!($field));
                let check = health.check(name);
                tasks.spawn(
                    name,
                    watched.follow(client.clone(), read, check, stop.clone()),
                );
            }};
        }
        follow!(claims, Claim::read);
        follow!(volumes, Volume::read);
        follow!(classes, Class::read);
        if kinds.attachments {
            follow!(attachments, Attachment::read);
        }
        if kinds.driver_nodes {
            follow!(driver_nodes, DriverNode::read);
        }
        if kinds.nodes {
            follow!(nodes, |wire, _: &str| NodeLabels::read(wire));
        }
        if kinds.snapshots {
            follow!(snapshot_classes, SnapshotClass::read_single);
            follow!(contents, Content::read_single);
        }
        if kinds.group_snapshots {
            follow!(group_classes, SnapshotClass::read_group);
            follow!(group_contents, Content::read_group);
        }
    }

    /// The volume of a claim, if both say so and neither is being deleted.
    pub(crate) fn volume_of(&self, claim: &Claim) -> Option<Arc<Volume>> {
        if !claim.bound || claim.deleting {
            return None;
        }
        let volume = self.volumes.store().get(claim.volume.as_ref()?)?;
        let key = volume.claim.as_ref();
        let both_ways = key.is_some_and(|key| key.uid == claim.uid);
        (both_ways && !volume.deleting).then_some(volume)
    }

    /// Returns when all kinds that are watched are known.
    pub async fn synced(&self, kinds: Kinds) {
        self.classes.synced().await;
        self.claims.synced().await;
        self.volumes.synced().await;
        if kinds.attachments {
            self.attachments.synced().await;
        }
        if kinds.driver_nodes {
            self.driver_nodes.synced().await;
        }
        if kinds.nodes {
            self.nodes.synced().await;
        }
        if kinds.snapshots {
            self.snapshot_classes.synced().await;
            self.contents.synced().await;
        }
        if kinds.group_snapshots {
            self.group_classes.synced().await;
            self.group_contents.synced().await;
        }
    }
}
