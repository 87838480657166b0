//! A journal of one's own, with its writer, on the API server that all tests share.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Config};
use stowage_service::{KubeArgs, Metrics, client};
use stowage_sidecar::journal::{Journal, JournalError, Place, Sharing};
use stowage_stage::soon;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub(crate) const NAMESPACE: &str = "default";
pub(crate) const CONTENT: &str = "stowage.dev/intents";

/// A journal, and the process around it.
pub(crate) struct Process {
    pub(crate) journal: Journal,
    pub(crate) metrics: Metrics,
    stop: CancellationToken,
    writer: JoinHandle<()>,
}

impl Process {
    /// Opens the journal `name`.
    pub(crate) async fn start(name: &str, identity: &str, sharing: Sharing) -> Self {
        let opened = Self::start_with(connect().await, name, identity, sharing).await;
        opened.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn start_with(
        client: Client,
        name: &str,
        identity: &str,
        sharing: Sharing,
    ) -> Result<Self, JournalError> {
        let metrics = Metrics::new();
        let place = Place {
            namespace: NAMESPACE,
            name,
            identity,
            driver: "x.example",
            node: None,
        };
        let journal = Journal::new(client, place, sharing, &metrics);
        journal.open(Some("this cluster".to_owned())).await?;
        let stop = CancellationToken::new();
        let (writing, stopped) = (journal.clone(), stop.clone());
        let writer = tokio::spawn(async move { writing.run(stopped).await });
        Ok(Self {
            journal,
            metrics,
            stop,
            writer,
        })
    }

    /// SIGTERM.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        soon(self.writer).await.unwrap();
    }

    /// SIGKILL.
    pub(crate) async fn die(self) {
        self.writer.abort();
        let _ = self.writer.await;
    }

    /// The value of a metric.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        metric(&self.metrics, name)
    }

    pub(crate) fn writes(&self) -> u64 {
        writes_of(&self.metrics)
    }
}

fn metric(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.encode().unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
        .trim()
        .parse()
        .unwrap()
}

/// How often a process wrote that may have ended.
pub(crate) fn writes_of(metrics: &Metrics) -> u64 {
    metric(metrics, "stowage_sidecar_journal_writes_total ")
}

pub(crate) async fn config() -> Config {
    let kubeconfig = Some(stowage_testing::shared().kubeconfig().into());
    let config = KubeArgs { kubeconfig }.config().await.unwrap();
    // The server makes the namespace a moment after it is ready.
    let namespaces: Api<Namespace> = Api::all(client::connect(config.clone()).unwrap());
    while namespaces.get_opt(NAMESPACE).await.unwrap().is_none() {
        sleep(Duration::from_millis(50)).await;
    }
    config
}

pub(crate) async fn connect() -> Client {
    client::connect(config().await).unwrap()
}

pub(crate) async fn leases() -> Api<Lease> {
    Api::namespaced(connect().await, NAMESPACE)
}

/// The text of a journal.
pub(crate) async fn content(name: &str) -> String {
    let lease = leases().await.get(name).await.unwrap();
    lease.metadata.annotations.unwrap()[CONTENT].clone()
}
