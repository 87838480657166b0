//! The shared view of the cluster: each kind is watched once, whatever the number of roles that read it.
//!
//! | file | holds |
//! |---|---|
//! | [`wire`] | what is decoded of the objects that the server sends |
//! | [`claim`], [`volume`], [`class`], [`attachment`], [`node`], [`pod`], [`content`], [`uninstalling`] | the kinds, reduced to what is used |
//!
//! Objects of other drivers are not kept.

pub mod attachment;
pub mod claim;
pub mod class;
pub mod content;
pub mod node;
pub mod pod;
pub mod uninstalling;
pub mod volume;
pub mod wire;

use std::fmt::Debug;
use std::sync::Arc;

use kube::Resource;
use serde::de::DeserializeOwned;
use stowage_kubernetes::store::Cached;
use stowage_kubernetes::watch::{Watched, Watcher};
use stowage_service::Health;
use tokio_util::sync::CancellationToken;

use self::attachment::Attachment;
use self::claim::Claim;
use self::class::{AttributesClassName, Class};
use self::content::{Content, SnapshotClass};
use self::node::{CsiNode, NodeLabels};
use self::uninstalling::Uninstalling;
use self::volume::Volume;
use crate::server::Server;

/// Which kinds are watched. Claims and volumes always are.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "a set of kinds")]
pub struct Kinds {
    /// VolumeAttachments.
    pub attachments: bool,
    /// CSINodes.
    pub csi_nodes: bool,
    /// Nodes.
    pub nodes: bool,
    /// VolumeSnapshotContents and VolumeSnapshotClasses.
    pub snapshots: bool,
    /// The same of groups.
    pub group_snapshots: bool,
    /// VolumeAttributesClasses.
    pub attributes_classes: bool,
    /// CSIDrivers, for the mark of one that is being uninstalled.
    pub csi_drivers: bool,
}

impl Kinds {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            attachments: self.attachments || other.attachments,
            csi_nodes: self.csi_nodes || other.csi_nodes,
            nodes: self.nodes || other.nodes,
            snapshots: self.snapshots || other.snapshots,
            group_snapshots: self.group_snapshots || other.group_snapshots,
            attributes_classes: self.attributes_classes || other.attributes_classes,
            csi_drivers: self.csi_drivers || other.csi_drivers,
        }
    }

    /// What of it the server has.
    pub(crate) fn on(self, server: &Server) -> Self {
        Self {
            snapshots: self.snapshots && server.snapshots,
            group_snapshots: self.group_snapshots && server.group_snapshots.is_some(),
            attributes_classes: self.attributes_classes && server.attributes_classes.is_some(),
            csi_drivers: self.csi_drivers && server.shows_csi_drivers,
            ..self
        }
    }
}

/// In which versions kinds are watched that not every server has in the same one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Versions {
    pub(crate) group_snapshots: Option<&'static str>,
    pub(crate) attributes_classes: Option<&'static str>,
}

impl Versions {
    pub(crate) fn of(server: &Server) -> Self {
        Self {
            group_snapshots: server.group_snapshots,
            attributes_classes: server.attributes_classes,
        }
    }
}

/// Starts watches, and tells objects of this driver from those of others. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DriverWatcher {
    pub(crate) watcher: Watcher,
    pub(crate) driver: Arc<str>,
}

impl DriverWatcher {
    /// For what only saves time to know: a role that may not see it works all the same, and says so in its log.
    fn without_health(&self) -> Self {
        let watcher = Watcher {
            health: Health::default(),
            ..self.watcher.clone()
        };
        Self {
            watcher,
            driver: Arc::clone(&self.driver),
        }
    }

    fn follow<W, T: Cached>(
        &self,
        watched: &Arc<Watched<T>>,
        read: fn(W, &str) -> Option<T>,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        self.follow_at(None, watched, read, stop);
    }

    fn follow_at<W, T: Cached>(
        &self,
        version: Option<&'static str>,
        watched: &Arc<Watched<T>>,
        read: fn(W, &str) -> Option<T>,
        stop: &CancellationToken,
    ) where
        W: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let driver = Arc::clone(&self.driver);
        let read = move |wire| read(wire, &driver);
        self.watcher.follow_at(version, watched, read, stop);
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
    pub csi_nodes: Arc<Watched<CsiNode>>,
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
    /// VolumeAttributesClasses of any driver, by name: only that they are there.
    pub attributes_classes: Arc<Watched<AttributesClassName>>,
    /// This driver, if it is being uninstalled.
    pub uninstalling: Arc<Watched<Uninstalling>>,
}

impl Cluster {
    /// Starts the watches; they end with `stop`.
    pub(crate) fn start(
        &self,
        watcher: &DriverWatcher,
        kinds: Kinds,
        versions: Versions,
        stop: &CancellationToken,
    ) {
        watcher.follow(&self.claims, Claim::read, stop);
        watcher.follow(&self.volumes, Volume::read, stop);
        watcher.follow(&self.classes, Class::read, stop);
        self.start_more(watcher, kinds, versions, stop);
    }

    /// Starts the watches of kinds that not every driver needs, or that came later.
    pub(crate) fn start_more(
        &self,
        watcher: &DriverWatcher,
        kinds: Kinds,
        versions: Versions,
        stop: &CancellationToken,
    ) {
        if kinds.attachments {
            watcher.follow(&self.attachments, Attachment::read, stop);
        }
        if kinds.csi_nodes {
            watcher.follow(&self.csi_nodes, CsiNode::read, stop);
        }
        if kinds.nodes {
            watcher.follow(&self.nodes, |wire, _| NodeLabels::read(wire), stop);
        }
        if kinds.snapshots {
            watcher.follow(&self.snapshot_classes, SnapshotClass::read_single, stop);
            watcher.follow(&self.contents, Content::read_single, stop);
        }
        if kinds.group_snapshots {
            let at = versions.group_snapshots;
            watcher.follow_at(at, &self.group_classes, SnapshotClass::read_group, stop);
            watcher.follow_at(at, &self.group_contents, Content::read_group, stop);
        }
        if kinds.attributes_classes {
            let at = versions.attributes_classes;
            let read = AttributesClassName::read;
            let watcher = watcher.without_health();
            watcher.follow_at(at, &self.attributes_classes, read, stop);
        }
        if kinds.csi_drivers {
            let watcher = watcher.without_health();
            watcher.follow(&self.uninstalling, Uninstalling::read, stop);
        }
    }

    /// Whether this driver is marked as being uninstalled.
    pub(crate) fn is_uninstalling(&self) -> bool {
        !self.uninstalling.store().is_empty()
    }

    /// The volume of a claim, if both say so and neither is being deleted.
    pub(crate) fn volume_of(&self, claim: &Claim) -> Option<Arc<Volume>> {
        if !claim.bound || claim.deleting {
            return None;
        }
        let volume = self.volumes.store().get(claim.volume.as_ref()?)?;
        let key = volume.claim.as_ref();
        let both_ways = key.is_some_and(|key| key.uid == claim.uid);
        (both_ways && !volume.deleting && !volume.is_in_tree()).then_some(volume)
    }

    /// Returns when all kinds that are watched are known. Not VolumeAttributesClasses: nothing is decided from what is
    /// known of them, and older roles do not allow to watch them.
    pub async fn synced(&self, kinds: Kinds) {
        self.classes.synced().await;
        self.claims.synced().await;
        self.volumes.synced().await;
        if kinds.attachments {
            self.attachments.synced().await;
        }
        if kinds.csi_nodes {
            self.csi_nodes.synced().await;
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
