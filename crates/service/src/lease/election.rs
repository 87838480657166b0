//! What a process uses: run this work while holding that lease.

use std::fs;
use std::pin::pin;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, Config};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use super::candidate::Candidate;
use super::{LeaseArgs, LeaseError, Timings};
use crate::{Metrics, client};

/// The leases of a process, by name. All share one client, which does nothing else: requests that wait behind others
/// cannot cost the leadership.
pub struct Elections {
    /// `None`: election is off, and this process always leads.
    client: Option<Client>,
    namespace: String,
    identity: String,
    labels: Vec<(String, String)>,
    timings: Timings,
    status: Family<[(&'static str, String); 1], Gauge>,
}

impl Elections {
    /// Prepares elections. Nothing is sent to the cluster yet. Must be called inside a tokio runtime.
    ///
    /// Registers the metric `leader_election_master_status`, as upstream names it: make one of these per process.
    pub fn new(config: Config, args: &LeaseArgs, metrics: &Metrics) -> Result<Self, LeaseError> {
        let timings = args.timings()?;
        let namespace = args
            .leader_election_namespace
            .clone()
            .filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client = args
            .leader_election
            .then(|| client::connect_without_retry(config))
            .transpose()?;
        let status = Family::default();
        metrics.register(
            "leader_election_master_status",
            "Whether this process leads, by lease: 1 yes, 0 no",
            Family::clone(&status),
        );
        let labels = args.leader_election_labels.clone();
        Ok(Self {
            client,
            namespace,
            identity: identity()?,
            labels,
            timings,
            status,
        })
    }

    /// The name under which this process holds leases.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Where the leases are, and what else a process keeps beside them.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Waits for the lease, then does `work` while renewing it, then releases it. Without leader election the work
    /// starts at once.
    ///
    /// `work` gets a token that is cancelled when leadership is lost; it must then stop at once, and is dropped when
    /// the lease expires. A request to stop the process does not cancel it: the lease is kept while work winds down.
    /// `None`: `shutdown` was cancelled before this process ever led.
    ///
    /// One lease may be led only once at a time by one `Elections`: both would believe the lease to be theirs.
    ///
    /// # Errors
    /// [`LeaseError::Lost`]; then the process should end. Errors of requests are logged and retried.
    pub async fn lead<W, F>(
        &self,
        lease: &str,
        shutdown: &CancellationToken,
        work: W,
    ) -> Result<Option<F::Output>, LeaseError>
    where
        W: FnOnce(CancellationToken) -> F,
        F: Future,
    {
        let lost = CancellationToken::new();
        let leads = self
            .status
            .get_or_create_owned(&[("name", lease.to_owned())]);
        let Some(client) = &self.client else {
            leads.set(1);
            return Ok(Some(work(lost).await));
        };
        let candidate = self.candidate(client, lease);
        let Some(mut held) = candidate.acquire(shutdown).await else {
            return Ok(None);
        };

        leads.set(1);
        let mut work = pin!(work(lost.clone()));
        let reason = tokio::select! {
            output = &mut work => {
                leads.set(0);
                candidate.release().await;
                return Ok(Some(output));
            }
            reason = candidate.hold(&mut held) => reason,
        };
        leads.set(0);
        lost.cancel();
        let _ = timeout_at(held.expires(self.timings), work).await;
        Err(LeaseError::Lost {
            lease: lease.to_owned(),
            reason,
        })
    }

    fn candidate(&self, client: &Client, lease: &str) -> Candidate {
        Candidate {
            api: Api::<Lease>::namespaced(client.clone(), &self.namespace),
            name: lease.to_owned(),
            identity: self.identity.clone(),
            labels: self.labels.iter().cloned().collect(),
            timings: self.timings,
        }
    }
}

/// Host name and a random part. The host name alone, which upstream uses, is shared by all pods on a node's network:
/// two of them would both take one lease for theirs.
fn identity() -> Result<String, LeaseError> {
    let random =
        fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(LeaseError::Identity)?;
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    Ok(format!("{host}_{}", random.trim()))
}
