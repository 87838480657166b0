//! The shared view of the cluster: each kind is watched once, whatever the number of roles that read it.
//!
//! | file | holds |
//! |---|---|
//! | [`wire`] | what is decoded of the objects that the server sends |
//! | [`claim`], [`volume`], [`class`], [`attachment`], [`node`], [`pod`], [`content`] | the kinds, reduced to what is used |
//!
//! Objects of other drivers are not kept.

pub mod attachment;
pub mod claim;
pub mod class;
pub mod content;
pub mod node;
pub mod pod;
pub mod volume;
pub mod wire;

use std::fmt::Debug;
use std::sync::Arc;

use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use stowage_kubernetes::store::Cached;
use stowage_kubernetes::watch::Watched;
use stowage_service::{Health, Tasks};
use tokio_util::sync::CancellationToken;

use self::attachment::Attachment;
use self::claim::Claim;
use self::class::Class;
use self::content::{Content, SnapshotClass};
use self::node::{DriverNode, NodeLabels};
use self::volume::Volume;
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

    /// What of it the server has.
    pub(crate) fn on(self, server: &Server) -> Self {
        Self {
            snapshots: self.snapshots && server.snapshots,
            group_snapshots: self.group_snapshots && server.group_snapshots,
            ..self
        }
    }
}

/// What a watch needs of the process around it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Watcher {
    pub(crate) client: Client,
    pub(crate) driver: Arc<str>,
    pub(crate) tasks: Tasks,
    pub(crate) health: Health,
}

impl Watcher {
    /// Spawns the watch of one kind. It is a check of its own, which says what is wrong.
    fn follow<W, T>(
        &self,
        name: &'static str,
        watched: &Arc<Watched<T>>,
        read: fn(W, &str) -> Option<T>,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
        T: Cached,
    {
        let driver = Arc::clone(&self.driver);
        let read = move |wire| read(wire, &driver);
        let check = self.health.check(name);
        let watched = Arc::clone(watched);
        let task = watched.follow(self.client.clone(), read, check, stop.clone());
        self.tasks.spawn(name, task);
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
    /// Starts the watches; they end with `stop`.
    pub(crate) fn start(&self, watcher: &Watcher, kinds: Kinds, stop: &CancellationToken) {
        watcher.follow("watch claims", &self.claims, Claim::read, stop);
        watcher.follow("watch volumes", &self.volumes, Volume::read, stop);
        watcher.follow("watch classes", &self.classes, Class::read, stop);
        self.start_more(watcher, kinds, stop);
    }

    /// Starts the watches of kinds that not every driver needs, or that came later.
    pub(crate) fn start_more(&self, watcher: &Watcher, kinds: Kinds, stop: &CancellationToken) {
        if kinds.attachments {
            let all = &self.attachments;
            watcher.follow("watch attachments", all, Attachment::read, stop);
        }
        if kinds.driver_nodes {
            let all = &self.driver_nodes;
            watcher.follow("watch driver_nodes", all, DriverNode::read, stop);
        }
        if kinds.nodes {
            watcher.follow(
                "watch nodes",
                &self.nodes,
                |wire, _| NodeLabels::read(wire),
                stop,
            );
        }
        if kinds.snapshots {
            let (classes, contents) = (&self.snapshot_classes, &self.contents);
            let read = SnapshotClass::read_single;
            watcher.follow("watch snapshot_classes", classes, read, stop);
            watcher.follow("watch contents", contents, Content::read_single, stop);
        }
        if kinds.group_snapshots {
            let (classes, contents) = (&self.group_classes, &self.group_contents);
            let read = SnapshotClass::read_group;
            watcher.follow("watch group_classes", classes, read, stop);
            watcher.follow("watch group_contents", contents, Content::read_group, stop);
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
