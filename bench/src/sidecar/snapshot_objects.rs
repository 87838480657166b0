//! Snapshots, their contents and their class, as JSON.

use kube::ResourceExt;
use serde_json::{Value, json};
use stowage_api::snapshot::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent, names};

use super::objects::{PART, claim_name, read};
use super::stage::DRIVER;

/// The class of all snapshots.
pub fn class() -> VolumeSnapshotClass {
    read(json!({
        "metadata": {"name": DRIVER},
        "driver": DRIVER,
        "deletionPolicy": "Delete",
    }))
}

/// A snapshot that waits.
pub fn snapshot(namespace: &str, number: usize) -> VolumeSnapshot {
    read(json!({
        "metadata": {
            "name": format!("snapshot-{number}"),
            "namespace": namespace,
            "labels": {PART: namespace},
        },
        "spec": {
            "source": {"persistentVolumeClaimName": claim_name(number)},
            "volumeSnapshotClassName": DRIVER,
        },
    }))
}

/// A snapshot that has its content, as the controller leaves it; its status is still missing.
pub fn kept_snapshot(namespace: &str, number: usize) -> VolumeSnapshot {
    let mut snapshot = snapshot(namespace, number);
    snapshot.metadata.finalizers = Some(vec![
        names::SNAPSHOT_AS_SOURCE.to_owned(),
        names::SNAPSHOT_BOUND.to_owned(),
    ]);
    snapshot
}

/// The content of a snapshot, as the controller makes it.
pub fn content(part: &str, snapshot: &VolumeSnapshot) -> VolumeSnapshotContent {
    let uid = snapshot.uid().unwrap_or_default();
    read(json!({
        "metadata": {
            "name": format!("{}{uid}", names::SNAPSHOT.prefix),
            "labels": {PART: part},
            "finalizers": [names::SNAPSHOT.finalizer],
        },
        "spec": {
            "deletionPolicy": "Delete",
            "driver": DRIVER,
            "source": {"volumeHandle": format!("vol-{uid}")},
            "sourceVolumeMode": "Filesystem",
            "volumeSnapshotClassName": DRIVER,
            "volumeSnapshotRef": {
                "apiVersion": names::SNAPSHOT_V1,
                "kind": "VolumeSnapshot",
                "namespace": snapshot.namespace(),
                "name": snapshot.name_any(),
                "uid": uid,
            },
        },
    }))
}

/// The status of a content whose snapshot was taken.
pub fn content_ready() -> Value {
    json!({"status": {
        "snapshotHandle": "snap-1234567890",
        "creationTime": 1_700_000_000_000_000_000_i64,
        "restoreSize": 1_i64 << 30,
        "readyToUse": true,
    }})
}

/// The status of a snapshot with that content.
pub fn ready(content: &str) -> Value {
    json!({"status": {
        "boundVolumeSnapshotContentName": content,
        "creationTime": "2023-11-14T22:13:20Z",
        "restoreSize": "1Gi",
        "readyToUse": true,
    }})
}
