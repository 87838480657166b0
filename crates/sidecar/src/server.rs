//! What of the sidecar's work the API server has kinds and fields for.

use kube::Client;
use stowage_api::snapshot::names::{GROUP_SNAPSHOT, SNAPSHOT};
use stowage_kubernetes::discovery::{self, ServerError};
use stowage_kubernetes::rights::Right;

/// The versions of the storage group, the best first.
const STORAGE: [&str; 3] = ["storage.k8s.io/v1", "storage.k8s.io/v1beta1", ALPHA];
/// Kinds of this version may be incomplete.
pub(crate) const ALPHA: &str = "storage.k8s.io/v1alpha1";

/// The API server's age and abilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    found: discovery::Server,
    /// Groups and versions with one of the kinds below.
    pub(crate) attributes_classes: Option<&'static str>,
    pub(crate) storage_capacities: Option<&'static str>,
    /// These come with definitions that somebody installs, maybe while we run.
    pub(crate) snapshots: bool,
    pub(crate) group_snapshots: Option<&'static str>,
    /// Whether this process may watch CSIDrivers. Roles of upstream's sidecars do not allow it, and lose nothing.
    pub(crate) shows_csi_drivers: bool,
}

impl Server {
    /// Asks the server.
    pub(crate) async fn discover(client: &Client) -> Result<Self, ServerError> {
        let found = discovery::Server::discover(client).await?;
        // Of this kind the first version lacks what is needed.
        let stable = &STORAGE[..2];
        let attributes_classes = found.version_with(client, "volumeattributesclasses", stable);
        let storage_capacities = found.version_with(client, "csistoragecapacities", &STORAGE);
        let watching = Right {
            group: "storage.k8s.io",
            resource: "csidrivers",
            verb: "watch",
        };
        Ok(Self {
            attributes_classes: attributes_classes.await?,
            storage_capacities: storage_capacities.await?,
            snapshots: found.first_served(SNAPSHOT.versions).is_some(),
            group_snapshots: found.first_served(GROUP_SNAPSHOT.versions),
            shows_csi_drivers: watching.is_granted(client).await.unwrap_or_default(),
            found,
        })
    }

    /// Such as `v1.20.2`.
    pub(crate) fn version(&self) -> &str {
        &self.found.version
    }

    /// Whether errors of attachments have a field for the gRPC code, which the kubelet reads: from 1.34 on.
    pub(crate) fn has_attach_error_codes(&self) -> bool {
        self.found.is_at_least(34)
    }

    /// Whether claims have fields for the size that is being reached, so that a failed expansion can be taken back:
    /// from 1.28 on. Up to 1.31 they may be off, and are dropped without a word.
    pub(crate) fn has_expansion_recovery(&self) -> bool {
        self.found.is_at_least(28)
    }

    /// Whether Kubernetes' own controller leaves static volumes to their drivers: from 1.30 on. Before, it marks them Failed
    /// as soon as they are released.
    pub(crate) fn releases_static_volumes(&self) -> bool {
        self.found.is_at_least(30)
    }

    /// What is off here, and why; for the log at the start.
    pub(crate) fn features_off(&self) -> Vec<&'static str> {
        let all = [
            (
                self.attributes_classes.is_none(),
                "VolumeAttributesClass: the server has no such kind (from 1.29 on, by feature gate)",
            ),
            (
                self.storage_capacities.is_none(),
                "CSIStorageCapacity: the server has no such kind (from 1.21 on)",
            ),
            (
                !self.snapshots,
                "snapshots, and volumes from them: the kinds of snapshot.storage.k8s.io/v1 are not installed (`stowage crds`)",
            ),
            (
                self.group_snapshots.is_none(),
                "snapshots of groups: the kinds of groupsnapshot.storage.k8s.io are not installed (`stowage crds`)",
            ),
            (
                !self.has_attach_error_codes(),
                "codes of attach errors: the server has no field for them (from 1.34 on)",
            ),
            (
                !self.has_expansion_recovery(),
                "recovery from failed expansions: claims have no field for it (from 1.28 on)",
            ),
            (
                !self.releases_static_volumes(),
                "deletion of static volumes: Kubernetes marks them Failed, and they are kept (from 1.30 on)",
            ),
        ];
        let off = all.into_iter().filter(|(is_off, _)| *is_off);
        off.map(|(_, feature)| feature).collect()
    }
}
