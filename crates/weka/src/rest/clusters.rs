//! All clients of the process, by secret.
//!
//! A client is found by everything its secret holds, so a changed secret is a new client from the next call on, and
//! the old one goes when nobody has used it for a while.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::client::{Client, ClientOptions};
use super::error::AccessError;
use super::{Api, Deadline, facts};
use crate::metrics::Metrics;
use crate::secret::{Credentials, Fingerprint};

/// How long a client is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// How long it may take to ask a cluster about itself.
const REFRESH_TIME: Duration = Duration::from_secs(20);

/// A secret for all requests that bring none, mounted as files.
#[derive(Debug, Clone)]
pub(crate) struct LegacySecret {
    pub(crate) directory: PathBuf,
    /// For messages, and to insist on it.
    pub(crate) name: Option<String>,
}

impl LegacySecret {
    /// Its keys, each a file. What begins with a dot is the kubelet's.
    fn read(&self) -> io::Result<BTreeMap<String, String>> {
        let mut secret = BTreeMap::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let (name, path) = entry.map(|entry| (entry.file_name(), entry.path()))?;
            let Some(key) = name.to_str().filter(|key| !key.starts_with('.')) else {
                continue;
            };
            if path.is_file() {
                secret.insert(key.to_owned(), std::fs::read_to_string(path)?);
            }
        }
        Ok(secret)
    }
}

/// The clients of the process.
pub(crate) struct Clusters {
    clients: Mutex<HashMap<Fingerprint, Arc<Client>>>,
    options: ClientOptions,
    legacy: LegacySecret,
    metrics: Metrics,
}

impl Clusters {
    pub(crate) fn new(options: ClientOptions, legacy: LegacySecret, metrics: Metrics) -> Self {
        Self {
            clients: Mutex::default(),
            options,
            legacy,
            metrics,
        }
    }

    /// The cluster of a request. None is the model without API: neither the request nor the pod has a secret.
    pub(crate) fn of_request(
        &self,
        secrets: &BTreeMap<String, String>,
        deadline: Deadline,
    ) -> Result<Option<Api>, AccessError> {
        if secrets.is_empty() {
            return self.of_legacy_secret(deadline);
        }
        self.api(Credentials::parse(secrets)?, deadline).map(Some)
    }

    /// The cluster of the legacy secret, if there is to be one. Its files are read again each time: it may appear or
    /// change at any moment.
    pub(crate) fn of_legacy_secret(&self, deadline: Deadline) -> Result<Option<Api>, AccessError> {
        if !self.expects_legacy_secret() {
            return Ok(None);
        }
        let unusable = |reason: String| AccessError::Legacy {
            name: self.legacy.name.clone(),
            reason,
        };
        let secret = self
            .legacy
            .read()
            .map_err(|error| unusable(format!("{}: {error}", self.legacy.directory.display())))?;
        if secret.is_empty() {
            let place = self.legacy.directory.display();
            return Err(unusable(format!(
                "`{place}` has no files: create the Secret that is mounted there"
            )));
        }
        let credentials =
            Credentials::parse(&secret).map_err(|error| unusable(error.to_string()))?;
        self.api(credentials, deadline).map(Some)
    }

    /// The clusters of all secrets that have been used to log in.
    pub(crate) fn in_use(&self, deadline: Deadline) -> Vec<Api> {
        let clients = self.clients.lock();
        let used = clients.values().filter(|client| client.known().is_some());
        used.map(|client| Api::new(client.clone(), deadline))
            .collect()
    }

    /// Whether requests without a secret are meant to use the legacy one.
    pub(crate) fn expects_legacy_secret(&self) -> bool {
        self.legacy.name.is_some() || self.legacy.directory.is_dir()
    }

    fn api(&self, credentials: Credentials, deadline: Deadline) -> Result<Api, AccessError> {
        let mut clients = self.clients.lock();
        let client = match clients.get(&credentials.fingerprint) {
            Some(client) => client.clone(),
            None => {
                let fingerprint = credentials.fingerprint;
                let client = Client::new(credentials, self.options, self.metrics.clone())?;
                let client = Arc::new(client);
                clients.insert(fingerprint, client.clone());
                client
            }
        };
        client.touch();
        Ok(Api::new(client, deadline))
    }

    /// Forgets clients that have been idle for this long.
    pub(super) fn drop_idle(&self, idle: Duration) {
        self.clients.lock().retain(|_, client| client.idle() < idle);
    }

    /// Asks all clusters about themselves again and again, so that an upgrade is noticed, and lets go of clients that
    /// nobody uses. Each cluster is asked by itself: one that is dead holds up no other.
    pub(crate) async fn keep_current(&self, every: Duration, stop: CancellationToken) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            self.drop_idle(IDLE);
            let clients: Vec<_> = self.clients.lock().values().cloned().collect();
            let refresh = clients.iter().map(|client| refresh(client, every));
            tokio::select! {
                () = stop.cancelled() => return,
                _ = join_all(refresh) => {}
            }
        }
    }
}

async fn refresh(client: &Client, every: Duration) {
    // Clients that have not logged in yet learn when they do; those that nobody uses need not know.
    let stale = client
        .known()
        .is_some_and(|facts| facts.learned.elapsed() >= every / 2);
    if !stale || client.idle() > every.saturating_mul(10) {
        return;
    }
    let deadline = Deadline::after(REFRESH_TIME);
    let learned = async {
        let token = client.sessions.token(client, deadline).await?;
        facts::learn(client, &token, deadline).await
    };
    if let Err(error) = learned.await {
        tracing::debug!(%error, "Cannot ask a cluster for its release.");
    }
}
