//! What a controller needs of the API server before it begins; the server may be away for a while.

use std::time::Duration;

use stowage_kubernetes::answer;
use stowage_kubernetes::discovery::ServerError;
use stowage_kubernetes::patience::patiently;
use stowage_kubernetes::queue::Backoff;
use stowage_service::client;

use super::{Controller, ControllerError};
use crate::journal::{Journal, JournalError, Sharing, journal_name};
use crate::server::Server;

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

    /// Opens the journal, patiently where the server is away. `None`: asked to stop.
    pub(super) async fn open_journal(
        &self,
        client: &kube::Client,
    ) -> Result<Option<Journal>, ControllerError> {
        let node = self.settings.own_node.as_ref().map(|own| own.name.as_str());
        let name = journal_name(self.driver.name().as_str(), node);
        let sharing = match node {
            Some(_) => Sharing::PerNode,
            None => Sharing::Exclusive,
        };
        let check = self.process.health.check("intent journal");
        let ask = || async {
            let opened = Journal::open(
                client.clone(),
                self.elections.namespace(),
                &name,
                self.elections.identity(),
                sharing,
                &self.process.metrics,
            );
            match opened.await {
                Err(
                    error @ (JournalError::Unreachable { .. } | JournalError::Forbidden { .. }),
                ) => Err(error.to_string()),
                opened => Ok(opened),
            }
        };
        let tell = |reason: &str| {
            tracing::error!(reason, "The intent journal cannot be opened; trying again.");
            check.not_ready(reason);
        };
        let opened = patiently(&self.process.shutdown, PAUSES, ask, tell).await;
        let journal = opened.transpose()?;
        if journal.is_some() {
            check.ready();
        }
        Ok(journal)
    }
}
