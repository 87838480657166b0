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
use stowage_api::snapshot::{VolumeSnapshot, VolumeSnapshotContent, names};
use tokio::time::Instant;

use super::objects::{PART, claim_name};
use super::provisioned::volume_by_hand;
use super::snapshot_objects;
use super::stage::{GROWING, SNAPSHOTTING};
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

/// Makes the least that a resizer could write: that it is at work, the volume's size, and the claim's.
pub async fn grow(
    client: &Client,
    namespace: &'static str,
    count: usize,
    size: &'static str,
) -> anyhow::Result<Latency> {
    let volumes = Api::<PersistentVolume>::all(client.clone());
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let (volumes, claims) = (&volumes, &claims);
    Latency::measure(0..count, GROWING, |number| async move {
        let (claim, params) = (claim_name(number), PatchParams::default());
        let capacity = json!({"storage": size});
        let condition = json!([{"type": "Resizing", "status": "True"}]);
        let begun = Patch::Strategic(json!({"status": {"conditions": condition}}));
        claims.patch_status(&claim, &params, &begun).await?;
        let volume = volume_by_hand(namespace, number);
        let larger = Patch::Strategic(json!({"spec": {"capacity": capacity}}));
        volumes.patch(&volume, &params, &larger).await?;
        let condition = json!([{"type": "Resizing", "$patch": "delete"}]);
        let status = json!({"conditions": condition, "capacity": capacity});
        let done = Patch::Strategic(json!({"status": status}));
        claims.patch_status(&claim, &params, &done).await?;
        Ok(())
    })
    .await
}

/// Makes the least that the two controllers could write for a snapshot: finalizer and content, the mark, what came of
/// it, the mark again, and the snapshot's status.
pub async fn snapshot(client: &Client, snapshots: &[VolumeSnapshot]) -> anyhow::Result<Latency> {
    let contents = Api::<VolumeSnapshotContent>::all(client.clone());
    let contents = &contents;
    Latency::measure(snapshots, SNAPSHOTTING, |snapshot| async move {
        let namespace = snapshot.namespace().unwrap_or_default();
        let api = Api::<VolumeSnapshot>::namespaced(client.clone(), &namespace);
        let (name, params) = (snapshot.name_any(), PatchParams::default());
        let kept = Patch::Merge(json!({"metadata": {"finalizers": [names::SNAPSHOT_BOUND]}}));
        api.patch(&name, &params, &kept).await?;
        let content = snapshot_objects::content(BARE, snapshot);
        contents.create(&PostParams::default(), &content).await?;
        let own = content.name_any();
        let mark =
            |value| json!({"metadata": {"annotations": {names::SNAPSHOT.being_created: value}}});
        let marked = Patch::Merge(mark(json!(names::YES)));
        contents.patch(&own, &params, &marked).await?;
        let ready = Patch::Merge(snapshot_objects::content_ready());
        contents.patch_status(&own, &params, &ready).await?;
        let unmarked = Patch::Merge(mark(Value::Null));
        contents.patch(&own, &params, &unmarked).await?;
        let ready = Patch::Merge(snapshot_objects::ready(&own));
        api.patch_status(&name, &params, &ready).await?;
        Ok(())
    })
    .await
}

/// What the bare client makes for snapshots.
pub const BARE: &str = "bare-snapshots";

/// Reads all contents and snapshots, both at the same time, and returns how many there are.
pub async fn list_snapshots(client: &Client) -> anyhow::Result<usize> {
    let contents = Api::<VolumeSnapshotContent>::all(client.clone());
    let snapshots = Api::<VolumeSnapshot>::all(client.clone());
    let (contents, snapshots) = tokio::try_join!(pages(&contents), pages(&snapshots))?;
    Ok(contents + snapshots)
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
