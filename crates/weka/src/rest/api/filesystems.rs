//! Filesystems.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::{Api, read};
use crate::rest::ApiError;
use crate::rest::call::Call;
use crate::rest::wire::{Filesystem, MountToken, Resolved, Thin};
use crate::version::Capability;

/// How often in a row a filesystem may not be found that was there.
const MOST_MISSED: u32 = 5;

/// A filesystem that is to be made. It has no Debug: its key may be a secret.
#[derive(Default)]
pub(crate) struct NewFilesystem {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) bytes: u64,
    pub(crate) encrypted: bool,
    /// Encrypted with a key that no server keeps.
    pub(crate) without_kms: bool,
    /// A key of its own.
    pub(crate) key: Option<KeyOfFilesystem>,
    /// Nobody but the user of the secret may use it.
    pub(crate) owned: bool,
}

/// The key of a filesystem in HashiCorp Vault, and who gets it there.
#[derive(Clone)]
pub(crate) struct KeyOfFilesystem {
    pub(crate) identifier: String,
    pub(crate) namespace: Option<String>,
    pub(crate) role_id: Option<SecretString>,
    pub(crate) secret_id: Option<SecretString>,
}

impl NewFilesystem {
    /// What is not asked for is left out: older clusters do not know it.
    fn body(&self) -> Value {
        let mut body = json!({
            "name": self.name,
            "group_name": self.group,
            "total_capacity": self.bytes,
        });
        for (field, set) in [
            ("encrypted", self.encrypted),
            ("allow_no_kms", self.without_kms),
            ("has_permissions", self.owned),
        ] {
            if set {
                body[field] = json!(true);
            }
        }
        let Some(key) = &self.key else {
            return body;
        };
        let role_id = key.role_id.as_ref().map(ExposeSecret::expose_secret);
        let secret_id = key.secret_id.as_ref().map(ExposeSecret::expose_secret);
        for (field, value) in [
            ("kms_vault_key_identifier", Some(&*key.identifier)),
            ("kms_vault_namespace", key.namespace.as_deref()),
            ("kms_vault_role_id", role_id),
            ("kms_vault_secret_id", secret_id),
        ] {
            if let Some(value) = value {
                body[field] = json!(value);
            }
        }
        body
    }
}

impl Api {
    /// Makes a filesystem. It takes a moment until it can be used.
    pub(crate) async fn create_filesystem(
        &self,
        new: &NewFilesystem,
    ) -> Result<Filesystem, ApiError> {
        let doing = "create a filesystem";
        let call = Call::with(Method::POST, "fileSystems", "fileSystems", doing);
        let body = new.body();
        let answer = self.client.call(&call, Some(&body), self.deadline).await?;
        read(answer.data, doing)
    }

    /// Waits until a filesystem that was there can be used, as long as the caller does. None if it has disappeared.
    pub(crate) async fn await_filesystem(
        &self,
        name: &str,
    ) -> Result<Option<Filesystem>, ApiError> {
        let (mut looks, mut missed) = (0, 0);
        loop {
            match self.filesystem(name).await? {
                Some(found) if found.is_usable() => return Ok(Some(found)),
                Some(_) => missed = 0,
                // Answers may come from a backend that has not heard of it yet.
                None if missed < MOST_MISSED => missed += 1,
                None => return Ok(None),
            }
            let reason = "it is still being created";
            self.pause(&mut looks, "wait for the new filesystem", reason)
                .await?;
        }
    }

    /// Changes the size of a filesystem. One that is thin stays so only if it is told again how much is on drives.
    pub(crate) async fn resize_filesystem(
        &self,
        filesystem: &Filesystem,
        bytes: u64,
        thin: Option<Thin>,
    ) -> Result<Filesystem, ApiError> {
        let doing = "change the size of a filesystem";
        let path = format!("fileSystems/{}", filesystem.uid);
        let call = Call::with(Method::PUT, "fileSystems/{uid}", path, doing);
        let mut body = json!({ "total_capacity": bytes });
        if let Some(Thin { min, max }) = thin {
            body["thin_provision_min_ssd"] = json!(min);
            body["thin_provision_max_ssd"] = json!(max);
        }
        let answer = self.client.call(&call, Some(&body), self.deadline).await;
        self.client.filesystems.forget(&filesystem.name);
        read(self.unless_gone(filesystem, answer)?.data, doing)
    }

    /// Removes a filesystem with all that is on it. Called twice: it is gone, or on its way out.
    pub(crate) async fn delete_filesystem(&self, filesystem: &Filesystem) -> Result<(), ApiError> {
        let doing = "delete a filesystem";
        let path = format!("fileSystems/{}", filesystem.uid);
        let call = Call::with(Method::DELETE, "fileSystems/{uid}", path, doing);
        let answer = self.client.call(&call, None, self.deadline).await;
        self.client.filesystems.forget(&filesystem.name);
        match answer {
            Ok(_) | Err(ApiError::Missing { .. }) => Ok(()),
            Err(error @ (ApiError::Refused { .. } | ApiError::Conflict { .. })) => {
                match self.by_uid(&filesystem.uid).await? {
                    Some(found) if !found.is_removing => Err(error),
                    _ => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until a filesystem is gone, as long as the caller does.
    pub(crate) async fn await_no_filesystem(
        &self,
        filesystem: &Filesystem,
    ) -> Result<(), ApiError> {
        let mut looks = 0;
        while self.by_uid(&filesystem.uid).await?.is_some() {
            let reason = "it is still being removed";
            self.pause(&mut looks, "wait until the filesystem is gone", reason)
                .await?;
        }
        Ok(())
    }

    /// The same for what an earlier call removed, of which only the name is known.
    pub(crate) async fn await_no_filesystem_named(&self, name: &str) -> Result<(), ApiError> {
        let mut looks = 0;
        loop {
            let found = self.filesystems_named(name).await?;
            if !found.iter().any(|one| one.is_removing) {
                return Ok(());
            }
            let reason = "it is still being removed";
            self.pause(&mut looks, "wait until the filesystem is gone", reason)
                .await?;
        }
    }

    async fn by_uid(&self, uid: &str) -> Result<Option<Filesystem>, ApiError> {
        let doing = "look for a filesystem";
        let call = Call::get("fileSystems/{uid}", format!("fileSystems/{uid}"), doing);
        match self.client.call(&call, None, self.deadline).await {
            Ok(answer) => read(answer.data, doing).map(Some),
            Err(ApiError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The filesystem of this name, if the organization has one. One that is being removed is gone.
    pub(crate) async fn filesystem(&self, name: &str) -> Result<Option<Filesystem>, ApiError> {
        let all = self.filesystems_named(name).await?.into_iter();
        let mut found = all.filter(|one| !one.is_removing);
        let found = match (found.next(), found.next()) {
            (_, Some(_)) => return Err(ApiError::Ambiguous(name.to_owned())),
            (found, None) => found,
        };
        let known = &self.client.filesystems;
        known.learn(name, found.as_ref(), Instant::now());
        Ok(found)
    }

    /// The same with those that are being removed.
    async fn filesystems_named(&self, name: &str) -> Result<Vec<Filesystem>, ApiError> {
        let call = Call::get("fileSystems", "fileSystems", "look for a filesystem");
        let mut all: Vec<Filesystem> = self.find(call, &[("name", name)]).await?;
        all.retain(|one| one.name == name);
        Ok(all)
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

    /// The names of all filesystems of the organization, as they are or were a minute ago.
    pub(crate) async fn recent_filesystem_names(&self) -> Result<Arc<[String]>, ApiError> {
        let known = &self.client.filesystem_names;
        if let Some(names) = known.get(Instant::now()) {
            return Ok(names);
        }
        let all = self.filesystems().await?;
        let names = all.into_iter().map(|one| one.name).collect();
        known.learn(&names, Instant::now());
        Ok(names)
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
}
