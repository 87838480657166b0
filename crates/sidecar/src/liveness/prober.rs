//! Asks a driver whether it is alive, for everybody who wants to know.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use stowage_csi::client::{ClientOptions, Connection};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_csi::proto::csi::ProbeRequest;
use stowage_csi::proto::csi::identity_client::IdentityClient;
use stowage_service::health::Verdict;
use tonic::Code;

use crate::driver::{DriverName, refusal};

/// Asks the driver, for all who want to know at that moment.
pub(super) struct Prober {
    timeout: Duration,
    connection: Connection,
    name: Name,
    state: Mutex<ProberState>,
}

/// Whom to ask.
pub(super) struct Subject {
    pub(super) driver: Endpoint,
    pub(super) timeout: Duration,
    pub(super) metrics: ClientMetrics,
    pub(super) name: Name,
}

/// What the driver is called, as soon as that is known.
pub(super) type Name = Arc<OnceLock<DriverName>>;

#[derive(Default)]
struct ProberState {
    running: Option<WeakShared<BoxFuture<'static, Verdict>>>,
    /// What was logged last.
    alive: Option<bool>,
}

impl Prober {
    /// Connects when it is asked for the first time. Must be called inside a tokio runtime.
    pub(super) fn new(subject: Subject) -> Self {
        let options = ClientOptions {
            timeout: subject.timeout,
            // The kubelet asks again by itself, and "no such file" tells more than a late answer.
            patience: Duration::ZERO,
            metrics: subject.metrics,
        };
        Self {
            timeout: subject.timeout,
            connection: Connection::new(&subject.driver, options),
            name: subject.name,
            state: Mutex::default(),
        }
    }

    /// One call at a time: a driver that hangs is not buried in calls, and everybody is answered within the timeout
    /// of the call.
    pub(super) async fn verdict(&self) -> Verdict {
        let verdict = self.running_probe().await;
        self.log_if_new(&verdict);
        verdict
    }

    fn running_probe(&self) -> Shared<BoxFuture<'static, Verdict>> {
        let mut state = self.state.lock();
        let running = state.running.as_ref().and_then(WeakShared::upgrade);
        // A finished probe whose answer is still on its way to somebody says nothing about now.
        if let Some(running) = running.filter(|probe| probe.peek().is_none()) {
            return running;
        }
        let mut connection = self.connection.clone();
        if let Some(name) = self.name.get() {
            connection = connection.with_driver_name(name.as_str());
        }
        let fresh = probe(connection, self.timeout).boxed().shared();
        state.running = fresh.downgrade();
        fresh
    }

    fn log_if_new(&self, verdict: &Verdict) {
        let alive = verdict.is_ok();
        let mut state = self.state.lock();
        if state.alive.replace(alive) == Some(alive) {
            return;
        }
        match verdict {
            Ok(()) => tracing::info!("The driver is alive."),
            Err(reason) => tracing::warn!(%reason, "The driver is not alive."),
        }
    }
}

async fn probe(connection: Connection, timeout: Duration) -> Verdict {
    let sentence = match IdentityClient::new(connection).probe(ProbeRequest {}).await {
        Ok(answer) if answer.get_ref().ready == Some(false) => {
            "the driver says that it is not ready".to_owned()
        }
        // An answer without the field means ready, says the specification.
        Ok(_) => return Ok(()),
        Err(status) if status.code() == Code::DeadlineExceeded => {
            format!("the driver did not answer Probe within {timeout:?}")
        }
        Err(status) => format!("the driver is not alive: {}", refusal("Probe", &status)),
    };
    // A probe's failure becomes one line of an event; the words may be the driver's.
    Err(sentence.replace(['\n', '\r'], " ").into())
}
