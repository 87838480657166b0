//! The snapshots that Kubernetes has, confirmed by the array.
//!
//! The array alone cannot tell: neither the volume nor the directory that a snapshot was taken of is written anywhere there.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;
use kube::api::ListParams;
use kube::{Api as KubeApi, ResourceExt as _};
use stowage_api::snapshot::VolumeSnapshotContent;
use stowage_api::snapshot::names::SNAPSHOT;
use stowage_kubernetes::answer::Answer;

use super::Inventory;
use crate::driver::Driver;
use crate::error::Error;
use crate::rest::Deadline;
use crate::rest::wire::Snapshot;
use crate::snapshot_id::SnapshotId;

/// How many contents the server sends at a time.
const PAGE: u32 = 500;

/// A snapshot that is there.
pub(crate) struct KnownSnapshot {
    pub(crate) id: SnapshotId,
    pub(crate) volume_id: String,
    pub(crate) bytes: Option<u64>,
    pub(crate) found: Snapshot,
}

/// A snapshot that Kubernetes has.
struct Content {
    id: SnapshotId,
    volume_id: String,
    bytes: Option<u64>,
    secret: Option<SecretReference>,
}

impl Driver {
    /// The snapshots for which `is_wanted` says yes, by handle and volume. Those for which Kubernetes names no secret, as it is
    /// with snapshots that somebody imported, are looked for with the secrets of the request.
    pub(crate) async fn known_snapshots(
        &self,
        inventory: &Inventory,
        is_wanted: impl Fn(&str, &str) -> bool,
        secrets: &BTreeMap<String, String>,
        deadline: Deadline,
    ) -> Result<Vec<KnownSnapshot>, Error> {
        let mut contents = inventory.contents(&self.config.serving.driver_name).await?;
        contents.retain(|content| is_wanted(&content.id.to_string(), &content.volume_id));
        // One list for each filesystem of a cluster.
        let mut groups: BTreeMap<_, Vec<Content>> = BTreeMap::new();
        for content in contents {
            let secret = content.secret.as_ref();
            let secret = secret.map(|secret| (secret.namespace.clone(), secret.name.clone()));
            let key = (secret, content.id.filesystem().to_owned());
            groups.entry(key).or_default().push(content);
        }
        let mut known = Vec::new();
        for ((_, filesystem), contents) in groups {
            let secret = contents.first().and_then(|content| content.secret.as_ref());
            let api = match secret {
                None => self.clusters.of_request(secrets, deadline)?,
                secret => self.cluster_of_secret(inventory, secret, deadline).await?,
            };
            let Some(api) = api else {
                continue;
            };
            let Some(filesystem) = api.recent_filesystem(&filesystem).await? else {
                continue;
            };
            let there = api.snapshots_of(&filesystem).await?;
            known.extend(contents.into_iter().filter_map(|content| {
                let mut there = there.iter();
                let found = there.find(|one| content.id.is_at(one) && !one.is_writable)?;
                Some(KnownSnapshot {
                    found: found.clone(),
                    id: content.id,
                    volume_id: content.volume_id,
                    bytes: content.bytes,
                })
            }));
        }
        known.sort_by_key(|snapshot| snapshot.id.to_string());
        known.dedup_by_key(|snapshot| snapshot.id.to_string());
        Ok(known)
    }

    /// The snapshot with this handle on the cluster of a request, whether Kubernetes has it or not.
    pub(crate) async fn snapshot_on_cluster(
        &self,
        id: SnapshotId,
        secrets: &BTreeMap<String, String>,
        deadline: Deadline,
    ) -> Result<Option<KnownSnapshot>, Error> {
        let Some(api) = self.clusters.of_request(secrets, deadline)? else {
            return Ok(None);
        };
        let Some(filesystem) = api.recent_filesystem(id.filesystem()).await? else {
            return Ok(None);
        };
        let found = api.snapshot(&filesystem, id.access_point()).await?;
        let found = found.filter(|found| id.is_at(found) && !found.is_writable);
        Ok(found.map(|found| KnownSnapshot {
            volume_id: id.source().to_string(),
            bytes: None,
            id,
            found,
        }))
    }
}

impl Inventory {
    async fn contents(&self, driver_name: &str) -> Result<Vec<Content>, Error> {
        let api = KubeApi::<VolumeSnapshotContent>::all(self.client.clone());
        let mut contents = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let listed = match api.list(&page).await {
                Ok(listed) => listed,
                // A cluster without snapshots.
                Err(error) if matches!(Answer::of(&error), Answer::Gone) => return Ok(contents),
                Err(error) => return Err(Error::Kubernetes(error.to_string())),
            };
            let more = listed.metadata.continue_.filter(|token| !token.is_empty());
            contents.extend(
                listed
                    .items
                    .into_iter()
                    .filter(|content| content.spec.driver == driver_name)
                    .filter_map(content),
            );
            match more {
                None => return Ok(contents),
                Some(token) => page.continue_token = Some(token),
            }
        }
    }
}

fn content(content: VolumeSnapshotContent) -> Option<Content> {
    let annotation = |name: &str| content.annotations().get(name).cloned();
    let secret = annotation(SNAPSHOT.secret_name).map(|name| SecretReference {
        name: Some(name),
        namespace: annotation(SNAPSHOT.secret_namespace),
    });
    let status = content.status.unwrap_or_default();
    let handle = status
        .snapshot_handle
        .or(content.spec.source.snapshot_handle)?;
    let id = SnapshotId::parse(&handle).ok()?;
    // Of a snapshot that somebody imported only its place is known.
    let volume_id = content.spec.source.volume_handle;
    Some(Content {
        volume_id: volume_id.unwrap_or_else(|| id.source().to_string()),
        bytes: status
            .restore_size
            .and_then(|bytes| u64::try_from(bytes).ok()),
        id,
        secret,
    })
}
