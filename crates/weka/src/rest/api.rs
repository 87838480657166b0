//! The calls that the driver makes, one function each.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stowage_api::backoff::Backoff;
use stowage_csi::waiting::on_machine;
use tokio::time::sleep;

use super::call::Call;
use super::client::Client;
use super::facts::Facts;
use super::wire::{Container, Filesystem, MountToken, Quota, QuotaStatus, Resolved};
use super::{ApiError, Deadline};
use crate::quota::Limits;
use crate::version::Capability;

/// How long apart a quota is asked about that is not active yet.
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

    /// What the cluster is.
    pub(crate) async fn facts(&self) -> Result<Arc<Facts>, ApiError> {
        self.client.facts(self.deadline).await
    }

    /// The filesystem of this name, if the organization has one. One that is being removed is gone.
    pub(crate) async fn filesystem(&self, name: &str) -> Result<Option<Filesystem>, ApiError> {
        let mut call = Call::get("fileSystems", "fileSystems", "look for a filesystem");
        // Older clusters answer queries with an error.
        if self.facts().await?.has(Capability::QueryParameters) {
            call = call.query("name", name);
        }
        let all: Vec<Filesystem> = self.list(&call).await?;
        let mut found = all
            .into_iter()
            .filter(|one| one.name == name && !one.is_removing);
        let found = match (found.next(), found.next()) {
            (_, Some(_)) => return Err(ApiError::Ambiguous(name.to_owned())),
            (found, None) => found,
        };
        let known = &self.client.filesystems;
        known.learn(name, found.as_ref(), Instant::now());
        Ok(found)
    }

    /// The same as it is or was a moment ago. Nobody should be refused because of it: ask [`Self::filesystem`] before.
    pub(crate) async fn recent_filesystem(
        &self,
        name: &str,
    ) -> Result<Option<Filesystem>, ApiError> {
        match self.client.filesystems.get(name, Instant::now()) {
            Some(known) => Ok(Some(known)),
            None => self.filesystem(name).await,
        }
    }

    /// All filesystems of the organization.
    pub(crate) async fn filesystems(&self) -> Result<Vec<Filesystem>, ApiError> {
        let call = Call::get("fileSystems", "fileSystems", "list filesystems");
        let all: Vec<Filesystem> = self.list(&call).await?;
        Ok(all.into_iter().filter(|one| !one.is_removing).collect())
    }

    /// The token that a mount of the filesystem needs; none where the cluster is too old for tokens.
    pub(crate) async fn mount_token(
        &self,
        filesystem: &Filesystem,
    ) -> Result<Option<SecretString>, ApiError> {
        let facts = self.facts().await?;
        if !facts.has(Capability::AuthenticatedMounts) {
            if filesystem.auth_required {
                return Err(facts.too_old("a filesystem that requires authentication", "3.14"));
            }
            return Ok(None);
        }
        let doing = "get the mount token of the filesystem";
        let path = format!("fileSystems/{}/mountToken", filesystem.uid);
        let call = Call::get("fileSystems/{uid}/mountToken", path, doing);
        let answer = self.client.call(&call, None, self.deadline).await;
        let data = self.unless_gone(filesystem, answer)?.data;
        let malformed = |reason: &str| ApiError::Malformed {
            doing,
            reason: reason.to_owned(),
        };
        let token: MountToken =
            serde_json::from_value(data).map_err(|_| malformed("it contains no token"))?;
        match token.filesystem_name {
            Some(name) if name != filesystem.name => {
                Err(malformed("the token belongs to another filesystem"))
            }
            _ => Ok(Some(token.mount_token.into())),
        }
    }

    /// The inode at a path of the filesystem, if there is one.
    pub(crate) async fn inode(
        &self,
        filesystem: &Filesystem,
        path: &Path,
    ) -> Result<Option<u64>, ApiError> {
        let doing = "find a path of the filesystem";
        let route = "fileSystems/{uid}/resolvePath";
        let call = Call::get(
            route,
            format!("fileSystems/{}/resolvePath", filesystem.uid),
            doing,
        )
        .query("path", format!("/{}", path.display()));
        match self.client.call(&call, None, self.deadline).await {
            Ok(envelope) => Ok(Some(read::<Resolved>(envelope.data, doing)?.inode_id)),
            Err(error) if error.is_path_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The quota of a directory, if it has one.
    pub(crate) async fn quota(
        &self,
        filesystem: &Filesystem,
        inode: u64,
    ) -> Result<Option<Quota>, ApiError> {
        let doing = "read the quota of a directory";
        let route = "fileSystems/{uid}/quota/{inode}";
        let call = Call::get(
            route,
            format!("fileSystems/{}/quota/{inode}", filesystem.uid),
            doing,
        );
        match self.client.call(&call, None, self.deadline).await {
            Ok(envelope) => {
                let quota: Quota = read(envelope.data, doing)?;
                Ok((quota.status != QuotaStatus::Deleting).then_some(quota))
            }
            Err(error) if error.is_quota_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a directory these limits, and waits until the array enforces them.
    ///
    /// Called twice: the same limits once more.
    pub(crate) async fn set_quota(
        &self,
        filesystem: &Filesystem,
        inode: u64,
        limits: Limits,
    ) -> Result<(), ApiError> {
        let body = json!({
            "hard_limit_bytes": limits.hard_bytes,
            "soft_limit_bytes": limits.soft_bytes,
            "grace_seconds": limits.grace_seconds,
        });
        let path = format!("fileSystems/{}/quota/{inode}", filesystem.uid);
        let route = "fileSystems/{uid}/quota/{inode}";
        let call = Call::with(Method::PUT, route, path, "set the quota of a directory");
        let answer = self.client.call(&call, Some(&body), self.deadline).await;
        let data = self.unless_gone(filesystem, answer)?.data;
        // Some releases answer with the number of another directory: then nothing of it is believed.
        let told = serde_json::from_value::<Quota>(data).ok();
        if told.is_some_and(|told| {
            told.inode_id == inode && told.status == QuotaStatus::Active && told.limits() == limits
        }) {
            return Ok(());
        }
        self.await_quota(filesystem, inode).await
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

    /// Waits until a quota is enforced, as long as the caller does.
    pub(crate) async fn await_quota(
        &self,
        filesystem: &Filesystem,
        inode: u64,
    ) -> Result<(), ApiError> {
        let doing = "wait for the quota of a directory";
        let mut looks = 0;
        loop {
            let status = self
                .quota(filesystem, inode)
                .await?
                .map(|quota| quota.status);
            let reason = match status {
                Some(QuotaStatus::Active) => return Ok(()),
                Some(QuotaStatus::Adding | QuotaStatus::Unknown) => "it is still being added",
                // Answers may come from a backend that has not heard of it yet.
                None => "it is not there yet",
                Some(QuotaStatus::Error | QuotaStatus::Deleting) => {
                    return Err(ApiError::Refused {
                        doing: "set the quota of a directory",
                        status: 200,
                        message: "the quota is in status ERROR".to_owned(),
                    });
                }
            };
            looks += 1;
            let pause = LOOKS.after(looks);
            if self.deadline.remaining() <= pause {
                let reason = reason.to_owned();
                return Err(ApiError::Deadline { doing, reason });
            }
            on_machine(sleep(pause)).await;
        }
    }

    /// All quotas of a filesystem, with their paths.
    pub(crate) async fn quotas(&self, filesystem: &Filesystem) -> Result<Vec<Quota>, ApiError> {
        let route = "fileSystems/{uid}/quota";
        let path = format!("fileSystems/{}/quota", filesystem.uid);
        let mut call = Call::get(route, path, "list the quotas of a filesystem");
        if self.facts().await?.has(Capability::QueryParameters) {
            call = call.query("get_path", "true");
        }
        self.list(&call).await
    }

    /// All containers of the cluster, clients and backends.
    pub(crate) async fn containers(&self) -> Result<Vec<Container>, ApiError> {
        let call = Call::get("containers", "containers", "list the cluster's containers");
        self.list(&call).await
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
