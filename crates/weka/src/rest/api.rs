//! The calls that the driver makes, one function each.
//!
//! - `filesystems`, `quotas`, `snapshots`: what volumes are made of.
//! - `nfs`: who may mount what.
//! - `cluster`: what else a cluster can be asked about itself.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use stowage_api::backoff::Backoff;
use stowage_csi::waiting::on_machine;
use tokio::time::sleep;

use super::call::Call;
use super::client::Client;
use super::facts::Facts;
use super::wire::Filesystem;
use super::{ApiError, Deadline};
use crate::version::Capability;

pub(crate) use filesystems::{KeyOfFilesystem, NewFilesystem};
pub(crate) use snapshots::NewSnapshot;

mod cluster;
mod filesystems;
mod nfs;
mod quotas;
mod snapshots;

/// How long apart the array is asked about what it has not finished yet.
const LOOKS: Backoff = Backoff {
    first: Duration::from_millis(50),
    longest: Duration::from_secs(1),
};

/// A cluster, within the time that one caller has.
#[derive(Clone)]
pub(crate) struct Api {
    client: Arc<Client>,
    deadline: Deadline,
}

impl Api {
    pub(crate) fn new(client: Arc<Client>, deadline: Deadline) -> Self {
        Self { client, deadline }
    }

    /// The same cluster with other time.
    pub(crate) fn until(&self, deadline: Deadline) -> Self {
        Self::new(self.client.clone(), deadline)
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// What the cluster is.
    pub(crate) async fn facts(&self) -> Result<Arc<Facts>, ApiError> {
        self.client.facts(self.deadline).await
    }

    /// An answer that says that something is missing may mean the filesystem itself.
    fn unless_gone<T>(
        &self,
        filesystem: &Filesystem,
        answer: Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        if let Err(ApiError::Missing { .. }) = &answer {
            self.client.filesystems.forget(&filesystem.name);
        }
        answer
    }

    /// A list in which the array looks for something, where it can: older ones answer queries with an error. What it
    /// finds is to be looked at again.
    async fn find<T: DeserializeOwned>(
        &self,
        mut call: Call,
        queries: &[(&'static str, &str)],
    ) -> Result<Vec<T>, ApiError> {
        if self.facts().await?.has(Capability::QueryParameters) {
            for (name, value) in queries {
                call = call.query(name, *value);
            }
        }
        self.list(&call).await
    }

    /// Waits before the array is asked again about something that is not done; fails where the caller's time is over.
    async fn pause(
        &self,
        looks: &mut u32,
        doing: &'static str,
        reason: &str,
    ) -> Result<(), ApiError> {
        *looks += 1;
        let pause = LOOKS.after(*looks);
        if self.deadline.remaining() <= pause {
            let reason = reason.to_owned();
            return Err(ApiError::Deadline { doing, reason });
        }
        on_machine(sleep(pause)).await;
        Ok(())
    }

    async fn list<T: DeserializeOwned>(&self, call: &Call) -> Result<Vec<T>, ApiError> {
        let values = self.client.list(call, self.deadline).await?;
        values
            .into_iter()
            .map(|value| read(value, call.doing))
            .collect()
    }
}

fn read<T: DeserializeOwned>(value: Value, doing: &'static str) -> Result<T, ApiError> {
    serde_json::from_value(value).map_err(|error| ApiError::Malformed {
        doing,
        reason: error.to_string(),
    })
}
