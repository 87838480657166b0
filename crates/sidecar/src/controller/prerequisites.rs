//! What a controller needs of the API server before it begins; the server may be away for a while.

use std::io::{self, Write as _};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use stowage_kubernetes::answer::{self, Answer};
use stowage_kubernetes::discovery::ServerError;
use stowage_kubernetes::patience::patiently;
use stowage_kubernetes::queue::Backoff;
use stowage_service::client;
use stowage_service::health::Check;
use tokio_util::sync::CancellationToken;

use super::{Controller, ControllerError};
use crate::journal::{Journal, JournalError, Place, Sharing, journal_name, listing};
use crate::server::Server;

const CANNOT_OPEN: &str = "The intent journal cannot be opened; trying again.";

/// A server that comes back is to be found at once.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(1),
};

impl Controller {
    /// Asks the server what it can do, and says what is off. `None`: asked to stop.
    pub(super) async fn discover(&self) -> Result<Option<Server>, ControllerError> {
        let client = client::connect(self.config.clone())?;
        let ask = || async {
            match Server::discover(&client).await {
                Ok(server) => Ok(Ok(server)),
                Err(error @ ServerError::TooOld(_)) => Ok(Err(error)),
                Err(error) => Err(answer::chain(&error)),
            }
        };
        let tell = |reason: &str| {
            tracing::warn!(reason, "The API server does not answer; asking again.");
        };
        let answered = patiently(&self.process.shutdown, PAUSES, ask, tell).await;
        let Some(server) = answered.transpose()? else {
            return Ok(None);
        };
        let version = server.version();
        tracing::info!(version, "The API server answers.");
        for feature in server.features_off() {
            tracing::info!(feature, "A feature is off here.");
        }
        Ok(Some(server))
    }

    /// The journal of this driver, or of the driver on this node.
    pub(super) fn journal(&self, client: &Client) -> Journal {
        let sharing = match self.settings.own_node {
            Some(_) => Sharing::PerNode,
            None => Sharing::Exclusive,
        };
        let name = self.journal_name();
        let metrics = &self.process.metrics;
        Journal::new(client.clone(), self.place(&name), sharing, metrics)
    }

    fn journal_name(&self) -> String {
        journal_name(self.driver.name().as_str(), self.own_node())
    }

    fn own_node(&self) -> Option<&str> {
        let own = self.settings.own_node.as_ref();
        own.map(|own| own.name.as_str())
    }

    fn place<'a>(&'a self, name: &'a str) -> Place<'a> {
        Place {
            namespace: self.elections.namespace(),
            name,
            identity: self.elections.identity(),
            driver: self.driver.name().as_str(),
            node: self.own_node(),
        }
    }

    /// Opens the journal, patiently where the server is away, but not where it cannot be read. `None`: asked to stop.
    pub(super) async fn open(
        &self,
        client: &Client,
        journal: &Journal,
    ) -> Result<Option<()>, ControllerError> {
        let ask = || async {
            match open_once(client, journal).await {
                Err(error @ JournalError::Unreadable { .. }) => Ok(Err(error)),
                Err(error) => Err(error.to_string()),
                Ok(()) => Ok(Ok(())),
            }
        };
        let tell = |reason: &str| tracing::error!(reason, "{CANNOT_OPEN}");
        let opened = patiently(&self.process.shutdown, PAUSES, ask, tell).await;
        Ok(opened.transpose()?)
    }

    /// Prints what is in the journal.
    pub(super) async fn list_intents(&self) -> Result<(), ControllerError> {
        let client = client::connect(self.config.clone())?;
        let (name, limit) = (self.journal_name(), self.settings.intents.age_limit);
        let cluster = cluster(&client)
            .await
            .map_err(|said| JournalError::Unreachable {
                lease: name.clone(),
                said,
            })?;
        let text = listing::list(client, self.place(&name), cluster.as_deref(), limit).await?;
        Ok(io::stdout().write_all(text.as_bytes())?)
    }
}

/// Opens the journal, whatever is in the way: somebody may repair it. False: asked to stop.
pub(super) async fn opened(
    client: &Client,
    journal: &Journal,
    check: &Check,
    stop: &CancellationToken,
) -> bool {
    if journal.is_open() {
        return true;
    }
    let ask = || async {
        let opened = open_once(client, journal).await;
        opened.map_err(|error| answer::chain(&error))
    };
    let tell = |reason: &str| {
        tracing::error!(reason, "{CANNOT_OPEN}");
        check.not_ready(reason);
    };
    check.not_ready("the intent journal is not open yet");
    let opened = patiently(stop, PAUSES, ask, tell).await.is_some();
    if opened {
        check.ready();
    }
    opened
}

async fn open_once(client: &Client, journal: &Journal) -> Result<(), JournalError> {
    let cluster = cluster(client).await;
    let cluster = cluster.map_err(|said| JournalError::Unreachable {
        lease: journal.to_string(),
        said,
    })?;
    journal.open(cluster).await
}

/// What this cluster is told from others by. `None`: upstream's roles do not allow to read it.
async fn cluster(client: &Client) -> Result<Option<String>, String> {
    let api = Api::<Namespace>::all(client.clone());
    match api.get_metadata("kube-system").await {
        Ok(namespace) => Ok(namespace.metadata.uid),
        Err(error) if matches!(Answer::of(&error), Answer::Forbidden(_)) => {
            tracing::info!(
                "The namespace `kube-system` may not be read: intents of other clusters are told by their age only."
            );
            Ok(None)
        }
        Err(error) => Err(answer::chain(&error)),
    }
}
