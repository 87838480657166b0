//! Which versions of kinds the server has, where that depends on the server. Found out at the start and, for kinds that may be
//! installed later, by whoever watches them.

use std::sync::Arc;

use kube::Client;
use parking_lot::RwLock;
use stowage_kubernetes::discovery::{Server, ServerError};

/// Versions of kinds that not every server has in the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// PodDisruptionBudget; every server has it.
    pub budget: &'static str,
    /// VolumeSnapshotClass.
    pub snapshot_class: Option<&'static str>,
    /// VolumeGroupSnapshotClass.
    pub group_snapshot_class: Option<&'static str>,
    /// VolumeAttributesClass.
    pub attributes_class: Option<&'static str>,
    /// ServiceMonitor of the Prometheus operator.
    pub service_monitor: Option<&'static str>,
}

impl Versions {
    /// A server that has everything, each in its newest version.
    pub const NEWEST: Self = Self {
        budget: "v1",
        snapshot_class: Some("v1"),
        group_snapshot_class: Some("v1"),
        attributes_class: Some("v1"),
        service_monitor: Some("v1"),
    };

    /// A server that has only what every server has.
    pub const LEAST: Self = Self {
        budget: "v1",
        snapshot_class: None,
        group_snapshot_class: None,
        attributes_class: None,
        service_monitor: None,
    };
}

/// The versions, kept current. Clones share them.
#[derive(Clone, Debug)]
pub struct Served(Arc<RwLock<Versions>>);

impl Default for Served {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Versions::LEAST)))
    }
}

impl Served {
    /// As they are known now.
    pub fn versions(&self) -> Versions {
        *self.0.read()
    }

    /// Asks for what a server has from its start to its end. Whether it is OpenShift's.
    pub(crate) async fn discover(&self, client: &Client) -> Result<bool, ServerError> {
        let server = Server::discover(client).await?;
        let budgets = server.version_with(client, "poddisruptionbudgets", &["policy/v1"]);
        self.0.write().budget = match budgets.await? {
            Some(_) => "v1",
            None => "v1beta1",
        };
        Ok(server.serves_group("security.openshift.io"))
    }

    /// Notes down a version; whether that is news.
    pub(crate) fn note(&self, note: impl FnOnce(&mut Versions)) -> bool {
        let mut versions = self.0.write();
        let before = *versions;
        note(&mut versions);
        *versions != before
    }
}
