//! Quotas of directories.

use reqwest::Method;
use serde_json::json;

use super::{Api, read};
use crate::quota::Limits;
use crate::rest::ApiError;
use crate::rest::call::Call;
use crate::rest::wire::{Filesystem, Quota, QuotaStatus};

impl Api {
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
        match self.begin_quota(filesystem, inode, limits).await? {
            QuotaStatus::Active => Ok(()),
            _ => self.await_quota(filesystem, inode).await,
        }
    }

    /// Gives a directory these limits; returns whether the array enforces them already. Where much is in it, that takes hours.
    ///
    /// Called twice: the same limits once more.
    pub(crate) async fn begin_quota(
        &self,
        filesystem: &Filesystem,
        inode: u64,
        limits: Limits,
    ) -> Result<QuotaStatus, ApiError> {
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
        let told = told.filter(|told| told.inode_id == inode && told.limits() == limits);
        Ok(told.map_or(QuotaStatus::Adding, |told| told.status))
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
                        is_question: false,
                        status: 200,
                        message: "the quota is in status ERROR".to_owned(),
                    });
                }
            };
            self.pause(&mut looks, doing, reason).await?;
        }
    }

    /// What helps where a quota cannot be set.
    pub(crate) async fn quota_remedy(&self, error: &ApiError) -> &'static str {
        if !matches!(error, ApiError::Refused { .. }) {
            return "it is tried again";
        }
        match self.has_data_services().await {
            Ok(true) => "ask the administrator of the cluster why it refuses",
            Ok(false) => {
                "a directory with files in it needs a data services container (a process with the role DATASERV, from Weka 4.3 on): start one, or set the quota by hand with `weka fs quota set`"
            }
            Err(_) => "the cluster does not say whether it has a data services container",
        }
    }

    /// All quotas of a filesystem, with their paths.
    pub(crate) async fn quotas(&self, filesystem: &Filesystem) -> Result<Vec<Quota>, ApiError> {
        let route = "fileSystems/{uid}/quota";
        let path = format!("fileSystems/{}/quota", filesystem.uid);
        let call = Call::get(route, path, "list the quotas of a filesystem");
        self.find(call, &[("get_path", "true")]).await
    }
}
