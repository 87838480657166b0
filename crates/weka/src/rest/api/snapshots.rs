//! Snapshots.

use reqwest::Method;
use serde_json::json;

use super::{Api, read};
use crate::rest::ApiError;
use crate::rest::call::Call;
use crate::rest::wire::{Filesystem, Snapshot};

const ROUTE: &str = "snapshots";

/// A snapshot that is to be made.
#[derive(Debug)]
pub(crate) struct NewSnapshot<'a> {
    pub(crate) name: &'a str,
    pub(crate) access_point: &'a str,
    /// The uid of the snapshot it is made from; none is the filesystem as it is.
    pub(crate) source: Option<&'a str>,
    pub(crate) writable: bool,
}

impl Api {
    /// The snapshot of a filesystem at an access point. One that is being removed is gone.
    pub(crate) async fn snapshot(
        &self,
        filesystem: &Filesystem,
        access_point: &str,
    ) -> Result<Option<Snapshot>, ApiError> {
        let found = self.snapshots_at(filesystem, access_point).await?;
        Ok(found.into_iter().find(|one| !one.is_removing))
    }

    /// The same with those that are being removed.
    async fn snapshots_at(
        &self,
        filesystem: &Filesystem,
        access_point: &str,
    ) -> Result<Vec<Snapshot>, ApiError> {
        let call = Call::get(ROUTE, ROUTE, "look for a snapshot");
        let queries = [
            ("filesystem", &*filesystem.name),
            ("access_point", access_point),
        ];
        let mut found = self.find::<Snapshot>(call, &queries).await?;
        found.retain(|one| one.access_point == access_point && one.filesystem == filesystem.name);
        Ok(found)
    }

    /// The snapshots with this name, on all filesystems of the organization.
    pub(crate) async fn snapshots_named(&self, name: &str) -> Result<Vec<Snapshot>, ApiError> {
        let call = Call::get(ROUTE, ROUTE, "look for a snapshot");
        let mut found = self.find::<Snapshot>(call, &[("name", name)]).await?;
        found.retain(|one| one.name == name && !one.is_removing);
        Ok(found)
    }

    /// The snapshots of a filesystem. Those that are being removed are gone.
    pub(crate) async fn snapshots_of(
        &self,
        filesystem: &Filesystem,
    ) -> Result<Vec<Snapshot>, ApiError> {
        let call = Call::get(ROUTE, ROUTE, "list the snapshots of a filesystem");
        let queries = [("filesystem", &*filesystem.name)];
        let mut found = self.find::<Snapshot>(call, &queries).await?;
        found.retain(|one| one.filesystem == filesystem.name && !one.is_removing);
        Ok(found)
    }

    /// All snapshots of the organization. Those that are being removed are gone.
    pub(crate) async fn snapshots(&self) -> Result<Vec<Snapshot>, ApiError> {
        let call = Call::get(ROUTE, ROUTE, "list snapshots");
        let mut found: Vec<Snapshot> = self.list(&call).await?;
        found.retain(|one| !one.is_removing);
        Ok(found)
    }

    /// Makes a snapshot, which is there at once. One that somebody else made at the same access point meanwhile is
    /// returned in its place. Returns also whether it was this call that made it.
    pub(crate) async fn create_snapshot(
        &self,
        filesystem: &Filesystem,
        new: &NewSnapshot<'_>,
    ) -> Result<(Snapshot, bool), ApiError> {
        let doing = "create a snapshot";
        let call = Call::with(Method::POST, ROUTE, ROUTE, doing);
        let mut body = json!({
            "fs_uid": filesystem.uid,
            "name": new.name,
            "access_point": new.access_point,
        });
        if let Some(source) = new.source {
            body["source_snap_uid"] = json!(source);
        }
        if new.writable {
            body["is_writable"] = json!(true);
        }
        let answer = self.client.call(&call, Some(&body), self.deadline).await;
        match self.unless_gone(filesystem, answer) {
            Ok(answer) => Ok((read(answer.data, doing)?, true)),
            Err(error @ (ApiError::Refused { .. } | ApiError::Conflict { .. })) => {
                let found = self.snapshot(filesystem, new.access_point).await?;
                Ok((found.ok_or(error)?, false))
            }
            Err(error) => Err(error),
        }
    }

    /// Removes a snapshot. Called twice: it is gone, or on its way out.
    pub(crate) async fn delete_snapshot(&self, uid: &str) -> Result<(), ApiError> {
        let path = format!("snapshots/{uid}");
        let call = Call::with(Method::DELETE, "snapshots/{uid}", path, "delete a snapshot");
        match self.client.call(&call, None, self.deadline).await {
            Ok(_) | Err(ApiError::Missing { .. }) => Ok(()),
            Err(error @ (ApiError::Refused { .. } | ApiError::Conflict { .. })) => {
                match self.snapshot_by_uid(uid).await? {
                    Some(found) if !found.is_removing => Err(error),
                    _ => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until a snapshot is gone, as long as the caller does.
    pub(crate) async fn await_no_snapshot(&self, uid: &str) -> Result<(), ApiError> {
        let mut looks = 0;
        while self.snapshot_by_uid(uid).await?.is_some() {
            let reason = "it is still being removed";
            self.pause(&mut looks, "wait until the snapshot is gone", reason)
                .await?;
        }
        Ok(())
    }

    /// The same for what an earlier call removed, of which only the access point is known.
    pub(crate) async fn await_no_snapshot_at(
        &self,
        filesystem: &Filesystem,
        access_point: &str,
    ) -> Result<(), ApiError> {
        let mut looks = 0;
        loop {
            let found = self.snapshots_at(filesystem, access_point).await?;
            if !found.iter().any(|one| one.is_removing) {
                return Ok(());
            }
            let reason = "it is still being removed";
            self.pause(&mut looks, "wait until the snapshot is gone", reason)
                .await?;
        }
    }

    async fn snapshot_by_uid(&self, uid: &str) -> Result<Option<Snapshot>, ApiError> {
        let doing = "look for a snapshot";
        let call = Call::get("snapshots/{uid}", format!("snapshots/{uid}"), doing);
        match self.client.call(&call, None, self.deadline).await {
            Ok(answer) => read(answer.data, doing).map(Some),
            Err(ApiError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
