//! A client that writes objects and does nothing else: this server cannot be written to faster from here.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::bail;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::objects::PART;
use crate::latency::Latency;

/// How long deleted objects may take to go.
const LIMIT: Duration = Duration::from_secs(600);
/// As many objects as a watcher asks for at a time.
const PAGE: u32 = 500;

/// Creates objects, `at_once` at a time.
pub async fn create<K>(api: &Api<K>, objects: &[K], at_once: usize) -> anyhow::Result<Latency>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    Latency::measure(objects, at_once, |object| async move {
        api.create(&PostParams::default(), object).await?;
        Ok(())
    })
    .await
}

/// Makes the least that an attacher could write: what a later detach needs, and that it is attached.
pub async fn attach(
    client: &Client,
    attachments: &[VolumeAttachment],
    at_once: usize,
) -> anyhow::Result<Latency> {
    let api = Api::<VolumeAttachment>::all(client.clone());
    let api = &api;
    Latency::measure(attachments, at_once, |attachment| async move {
        let name = attachment.name_any();
        let marks = json!({"metadata": {
            "finalizers": ["external-attacher/bare"],
            "annotations": {"csi.alpha.kubernetes.io/node-id": attachment.spec.node_name},
        }});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(marks))
            .await?;
        let attached = json!({"status": {"attached": true, "attachmentMetadata": {}}});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(attached))
            .await?;
        Ok(())
    })
    .await
}

/// Reads all volumes and claims, both at the same time, page by page, and returns how many there are.
pub async fn list(client: &Client) -> anyhow::Result<usize> {
    let volumes = Api::<PersistentVolume>::all(client.clone());
    let claims = Api::<PersistentVolumeClaim>::all(client.clone());
    let (volumes, claims) = tokio::try_join!(pages(&volumes), pages(&claims))?;
    Ok(volumes + claims)
}

async fn pages<K: Clone + Debug + DeserializeOwned>(api: &Api<K>) -> anyhow::Result<usize> {
    let mut page = ListParams::default().limit(PAGE);
    let mut count = 0;
    loop {
        let objects = api.list(&page).await?;
        count += objects.items.len();
        match objects.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(count),
        }
    }
}

/// Deletes the objects of one part, and waits until they are gone. Finalizers that nobody else would take away go first.
pub async fn delete<K>(api: &Api<K>, part: &str, ours: bool) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned + Resource,
{
    let selected = ListParams::default().labels(&format!("{PART}={part}"));
    if ours {
        let params = PatchParams::default();
        let none = Patch::Merge(json!({"metadata": {"finalizers": Value::Null}}));
        for few in api.list_metadata(&selected).await?.items.chunks(50) {
            let names: Vec<String> = few.iter().map(ResourceExt::name_any).collect();
            let patches = names
                .iter()
                .map(|name| api.patch_metadata(name, &params, &none));
            try_join_all(patches).await?;
        }
    }
    api.delete_collection(&DeleteParams::default(), &selected)
        .await?;
    let give_up = Instant::now() + LIMIT;
    while Instant::now() < give_up {
        if api.list_metadata(&selected).await?.items.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bail!("objects of `{part}` were deleted and are still there after {LIMIT:?}");
}
