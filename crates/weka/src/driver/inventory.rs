//! All volumes of this driver, as Kubernetes has them, and what their arrays say of them: condition, capacity, use.
//!
//! - `volumes`: what of a PersistentVolume is kept.
//! - `sweep`: when they are read from their arrays; `read`: how: one list for each filesystem, not a call for each volume.
//! - `reading`: what was found, and what it means.
//! - `backfill`: gives volumes the quotas that they lack.
//! - `snapshots`: the snapshots that Kubernetes has.
//!
//! The credentials are those that PersistentVolumes and VolumeSnapshotContents name. Nothing is mounted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::SecretReference;
use parking_lot::Mutex;
use stowage_kubernetes::secrets;
use stowage_kubernetes::watch::Watched;
use stowage_service::Health;
use tokio_util::sync::CancellationToken;

use super::Driver;
use crate::error::Error;
use crate::rest::{Api, Deadline};
pub(crate) use reading::{Reading, State};
pub(crate) use volumes::KnownVolume;

mod backfill;
mod read;
mod reading;
mod snapshots;
mod sweep;
mod volumes;

/// How long a secret is taken to be as it was: many volumes name the same one.
const SECRET_FRESH: Duration = Duration::from_secs(30);

/// Namespace and name.
pub(crate) type SecretName = (String, String);

/// When it was read, and its content.
type ReadSecret = (Instant, BTreeMap<String, String>);

/// All volumes of the driver.
pub(crate) struct Inventory {
    client: kube::Client,
    volumes: Arc<Watched<KnownVolume>>,
    readings: Mutex<HashMap<String, Reading>>,
    /// When all of them had been read last.
    swept: Mutex<Option<Instant>>,
    /// Held by who reads them.
    failures: tokio::sync::Mutex<sweep::Failures>,
    /// The numbers of directories in snapshots, by handle: the array lists no quotas there.
    inodes: Mutex<HashMap<String, u64>>,
    secrets: Mutex<HashMap<SecretName, ReadSecret>>,
}

impl Inventory {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self {
            client,
            volumes: Arc::default(),
            readings: Mutex::default(),
            swept: Mutex::default(),
            failures: tokio::sync::Mutex::default(),
            inodes: Mutex::default(),
            secrets: Mutex::default(),
        }
    }

    /// Follows the PersistentVolumes of a driver until `stop`.
    pub(crate) async fn follow(&self, driver_name: String, stop: CancellationToken) {
        // A right that is missing is logged; claims can be provisioned without it, so the process is ready all the same.
        let check = Health::default().check("volumes");
        let read = move |volume| KnownVolume::read(volume, &driver_name);
        let volumes = self.volumes.clone();
        volumes.follow(self.client.clone(), read, check, stop).await;
    }

    /// The volumes that Kubernetes has.
    pub(crate) fn volumes(&self) -> Vec<Arc<KnownVolume>> {
        self.volumes.store().all()
    }

    /// The volumes with this handle.
    pub(crate) fn with_handle(&self, handle: &str) -> Vec<Arc<KnownVolume>> {
        self.volumes.store().in_group(handle)
    }

    /// What was last read of a volume.
    pub(crate) fn reading(&self, volume: &KnownVolume) -> Option<Reading> {
        self.readings.lock().get(&volume.name).cloned()
    }

    /// Forgets volumes that are gone.
    fn forget_all_but(&self, present: &[Arc<KnownVolume>]) {
        let names: HashSet<_> = present.iter().map(|volume| volume.name.as_str()).collect();
        let mut readings = self.readings.lock();
        readings.retain(|name, _| names.contains(name.as_str()));
    }

    /// The content of a secret, as it is or was a moment ago.
    async fn secret(
        &self,
        secret: &SecretReference,
    ) -> Result<BTreeMap<String, String>, secrets::SecretError> {
        let owned = |text: &Option<String>| text.clone().unwrap_or_default();
        let name = (owned(&secret.namespace), owned(&secret.name));
        let now = Instant::now();
        {
            let mut known = self.secrets.lock();
            known.retain(|_, (read, _)| now.saturating_duration_since(*read) < SECRET_FRESH);
            if let Some((_, content)) = known.get(&name) {
                return Ok(content.clone());
            }
        }
        let content = secrets::read(&self.client, Some(secret)).await?;
        self.secrets.lock().insert(name, (now, content.clone()));
        Ok(content)
    }
}

impl Driver {
    /// The cluster that a secret leads to. No secret is the legacy one.
    pub(crate) async fn cluster_of_secret(
        &self,
        inventory: &Inventory,
        secret: Option<&SecretReference>,
        deadline: Deadline,
    ) -> Result<Option<Api>, Error> {
        let content = match secret {
            None => BTreeMap::new(),
            Some(secret) => inventory.secret(secret).await?,
        };
        Ok(self.clusters.of_request(&content, deadline)?)
    }
}
