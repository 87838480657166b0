//! What is watched about the cluster.

use kube::Client;
use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use serde_json::Value;
use stowage_api::driver_deployment::OWNER_UID_LABEL;
use stowage_kubernetes::discovery::{Server, ServerError};

use crate::served::Versions;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Source {
    StorageClasses,
    Volumes,
    CsiNodes,
    Namespaces,
    SnapshotClasses,
    SnapshotContents,
    GroupSnapshotClasses,
    GroupSnapshotContents,
    AttributesClasses,
    ServiceMonitors,
}

/// How a kind is addressed, and where it is found.
struct Place {
    kind: &'static str,
    plural: &'static str,
    /// Groups with versions, the best first. Several, or one that not every server has: it is asked for.
    versions: &'static [&'static str],
    is_optional: bool,
}

/// Group and version of snapshots.
pub(super) const SNAPSHOTS: &str = "snapshot.storage.k8s.io/v1";

const GROUP_SNAPSHOTS: &[&str] = &[
    "groupsnapshot.storage.k8s.io/v1",
    "groupsnapshot.storage.k8s.io/v1beta2",
    "groupsnapshot.storage.k8s.io/v1beta1",
];

impl Source {
    pub(super) const ALL: [Self; 10] = [
        Self::StorageClasses,
        Self::Volumes,
        Self::CsiNodes,
        Self::Namespaces,
        Self::SnapshotClasses,
        Self::SnapshotContents,
        Self::GroupSnapshotClasses,
        Self::GroupSnapshotContents,
        Self::AttributesClasses,
        Self::ServiceMonitors,
    ];

    const fn place(self) -> Place {
        const fn place(
            kind: &'static str,
            plural: &'static str,
            versions: &'static [&'static str],
            is_optional: bool,
        ) -> Place {
            Place {
                kind,
                plural,
                versions,
                is_optional,
            }
        }
        const STORAGE: &[&str] = &["storage.k8s.io/v1"];
        match self {
            Self::StorageClasses => place("StorageClass", "storageclasses", STORAGE, false),
            Self::Volumes => place("PersistentVolume", "persistentvolumes", &["v1"], false),
            Self::CsiNodes => place("CSINode", "csinodes", STORAGE, false),
            Self::Namespaces => place("Namespace", "namespaces", &["v1"], false),
            Self::SnapshotClasses => place(
                "VolumeSnapshotClass",
                "volumesnapshotclasses",
                &[SNAPSHOTS],
                true,
            ),
            Self::SnapshotContents => place(
                "VolumeSnapshotContent",
                "volumesnapshotcontents",
                &[SNAPSHOTS],
                true,
            ),
            Self::GroupSnapshotClasses => place(
                "VolumeGroupSnapshotClass",
                "volumegroupsnapshotclasses",
                GROUP_SNAPSHOTS,
                true,
            ),
            Self::GroupSnapshotContents => place(
                "VolumeGroupSnapshotContent",
                "volumegroupsnapshotcontents",
                GROUP_SNAPSHOTS,
                true,
            ),
            Self::AttributesClasses => place(
                "VolumeAttributesClass",
                "volumeattributesclasses",
                &["storage.k8s.io/v1", "storage.k8s.io/v1beta1"],
                true,
            ),
            Self::ServiceMonitors => place(
                "ServiceMonitor",
                "servicemonitors",
                &["monitoring.coreos.com/v1"],
                true,
            ),
        }
    }

    /// Whether clusters may lack it.
    pub(super) const fn is_optional(self) -> bool {
        self.place().is_optional
    }

    /// Group and version in which the server has it; `None`: it has not.
    pub(super) async fn find(self, client: &Client) -> Result<Option<&'static str>, ServerError> {
        let place = self.place();
        if !place.is_optional {
            return Ok(place.versions.first().copied());
        }
        let server = Server::discover(client).await?;
        server
            .version_with(client, place.plural, place.versions)
            .await
    }

    /// The group and version of which this is the version.
    pub(super) fn group_version(self, version: &str) -> Option<&'static str> {
        let all = self.place().versions.iter().copied();
        let mut fitting = all.filter(|it| it.rsplit('/').next() == Some(version));
        fitting.next()
    }

    /// How a client addresses it in this group and version.
    pub(super) fn resource(self, group_version: &str) -> ApiResource {
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let place = self.place();
        let kind = GroupVersionKind::gvk(group, version, place.kind);
        ApiResource::from_gvk_with_plural(&kind, place.plural)
    }

    /// How many objects are read at a time. Each CSINode names all drivers of its node.
    pub(super) const fn page_size(self) -> u32 {
        match self {
            Self::CsiNodes => 50,
            _ => 500,
        }
    }

    /// Which of its objects are watched.
    pub(super) const fn labels(self) -> Option<&'static str> {
        match self {
            Self::ServiceMonitors => Some(OWNER_UID_LABEL),
            _ => None,
        }
    }

    /// Objects of this kind belong to instances too, and this is their only watch: the name of the driver in them.
    pub(super) const fn driver_field(self) -> Option<&'static str> {
        match self {
            Self::SnapshotClasses | Self::GroupSnapshotClasses => Some("driver"),
            Self::AttributesClasses => Some("driverName"),
            _ => None,
        }
    }

    /// Where its objects name their driver, for kinds that only a driver can delete.
    pub(super) fn driver_in(self, spec: &Value) -> Option<&Value> {
        match self {
            Self::Volumes => Some(&spec["csi"]["driver"]),
            Self::SnapshotContents | Self::GroupSnapshotContents => Some(&spec["driver"]),
            _ => None,
        }
    }

    /// Where its version is noted down, if anybody writes objects of this kind.
    pub(super) fn noted(self, versions: &mut Versions) -> Option<&mut Option<&'static str>> {
        match self {
            Self::SnapshotClasses => Some(&mut versions.snapshot_class),
            Self::GroupSnapshotClasses => Some(&mut versions.group_snapshot_class),
            Self::AttributesClasses => Some(&mut versions.attributes_class),
            Self::ServiceMonitors => Some(&mut versions.service_monitor),
            _ => None,
        }
    }
}
