//! What a controller needs of the API server before it begins; the server may be away for a while.

use std::time::Duration;

use stowage_kubernetes::answer;
use stowage_kubernetes::discovery::ServerError;
use stowage_service::client;

use super::{Controller, ControllerError};
use crate::journal::{Journal, JournalError, Sharing, journal_name};
use crate::server::Server;

/// Pause before the API server is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl Controller {
    /// Asks the server what it can do, and says what is off. `None`: asked to stop.
    pub(super) async fn discover(&self) -> Result<Option<Server>, ControllerError> {
        let client = client::connect(self.config.clone())?;
        let mut told = String::new();
        loop {
            let error = match Server::discover(&client).await {
                Ok(server) => {
                    let version = server.version();
                    tracing::info!(version, "The API server answers.");
                    for feature in server.features_off() {
                        tracing::info!(feature, "A feature is off here.");
                    }
                    return Ok(Some(server));
                }
                Err(error @ ServerError::TooOld(_)) => return Err(error.into()),
                Err(error) => answer::chain(&error),
            };
            if told != error {
                tracing::warn!(
                    reason = error,
                    "The API server does not answer; asking again."
                );
                told = error;
            }
            let pause = tokio::time::sleep(ASK_AGAIN);
            if self
                .process
                .shutdown
                .run_until_cancelled(pause)
                .await
                .is_none()
            {
                return Ok(None);
            }
        }
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
        let mut told = String::new();
        let check = self.process.health.check("intent journal");
        loop {
            let opened = Journal::open(
                client.clone(),
                self.elections.namespace(),
                &name,
                self.elections.identity(),
                sharing,
                &self.process.metrics,
            );
            let error = match opened.await {
                Ok(journal) => {
                    check.ready();
                    return Ok(Some(journal));
                }
                Err(
                    error @ (JournalError::Unreachable { .. } | JournalError::Forbidden { .. }),
                ) => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            if told != error {
                tracing::error!(
                    reason = error,
                    "The intent journal cannot be opened; trying again."
                );
                check.not_ready(error.as_str());
                told = error;
            }
            let pause = tokio::time::sleep(ASK_AGAIN);
            if self
                .process
                .shutdown
                .run_until_cancelled(pause)
                .await
                .is_none()
            {
                return Ok(None);
            }
        }
    }
}
