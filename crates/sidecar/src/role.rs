//! The roles of the controller: which there are, when each runs, and what they work with.
//!
//! A new role is one file with a `ROLE` in it, and one entry in [`ROLES`].

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;
use stowage_kubernetes::events::Events;
use stowage_service::Metrics;
use tokio_util::sync::CancellationToken;

use crate::args::Settings;
use crate::cluster::{Cluster, DriverWatcher, Kinds};
use crate::driver::{Capabilities, Driver};
use crate::journal::Journal;
use crate::server::Server;

/// All roles.
pub(crate) const ROLES: &[Role] = &[
    crate::provision::ROLE,
    crate::attach::ROLE,
    crate::resize::ROLE,
    crate::capacity::ROLE,
    crate::snapshot::ROLE,
];

/// What one of the Go sidecars did.
pub(crate) struct Role {
    /// For people.
    pub(crate) name: &'static str,
    /// The lease of the Go sidecar it replaces: while that one holds it, the role waits.
    pub(crate) lease: fn(driver: &str) -> String,
    /// Which kinds it reads. `None`: there is nothing to do for a driver that can do no more than this.
    pub(crate) needs: fn(Capabilities, &Settings) -> Option<Kinds>,
    /// Does the work until the token is cancelled, and finishes what is under way.
    pub(crate) run: fn(Context, CancellationToken) -> BoxFuture<'static, ()>,
}

/// What every role works with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) driver: Driver,
    pub(crate) cluster: Cluster,
    pub(crate) watcher: DriverWatcher,
    pub(crate) client: Client,
    pub(crate) server: Arc<Server>,
    pub(crate) events: Events,
    pub(crate) journal: Journal,
    pub(crate) settings: Arc<Settings>,
    pub(crate) metrics: Metrics,
}

/// A driver's name in the names of leases and finalizers, as upstream writes it.
pub(crate) fn sanitised(driver: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let mut name = driver.replace(|letter| !allowed(letter), "-");
    if name.ends_with('-') {
        name.push('X');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_are_written_as_upstream_does() {
        for (driver, written) in [
            ("hostpath.csi.k8s.io", "hostpath-csi-k8s-io"),
            ("plain", "plain"),
            ("ends.", "ends-X"),
            ("A_b", "A-b"),
        ] {
            assert_eq!(sanitised(driver), written);
        }
    }
}
