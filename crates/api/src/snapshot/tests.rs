//! Objects as the API server sends them, read and written again.

use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// Reads an object and returns it; fails if writing it again gives anything else.
fn round_trip<T: Serialize + DeserializeOwned>(wire: &Value) -> T {
    let object: T = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), *wire);
    object
}

#[test]
fn a_volume_snapshot_round_trips() {
    let snapshot: VolumeSnapshot = round_trip(&json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": "s", "namespace": "ns", "uid": "u"},
        "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "fast"},
        "status": {
            "boundVolumeSnapshotContentName": "snapcontent-u",
            "creationTime": "2026-01-02T03:04:05Z",
            "readyToUse": false,
            "restoreSize": "1Gi",
            "error": {"time": "2026-01-02T03:04:06Z", "message": "busy"},
            "volumeGroupSnapshotName": "g",
        },
    }));
    let status = snapshot.status.unwrap();
    assert_eq!(status.restore_size.unwrap().0, "1Gi");
    assert_eq!(status.error.unwrap().message.as_deref(), Some("busy"));
}

#[test]
fn a_volume_snapshot_content_counts_nanoseconds_and_bytes() {
    let content: VolumeSnapshotContent = round_trip(&json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": "snapcontent-u"},
        "spec": {
            "volumeSnapshotRef": {"name": "s", "namespace": "ns", "uid": "u"},
            "deletionPolicy": "Retain",
            "driver": "hostpath.csi.k8s.io",
            "source": {"volumeHandle": "v-1"},
            "sourceVolumeMode": "Block",
        },
        "status": {
            "snapshotHandle": "s-1",
            "creationTime": 1_767_323_045_000_000_001_i64,
            "restoreSize": 1_073_741_824_i64,
            "readyToUse": true,
            "volumeGroupSnapshotHandle": "g-1",
        },
    }));
    assert_eq!(content.spec.deletion_policy, DeletionPolicy::Retain);
    assert_eq!(content.status.unwrap().restore_size, Some(1 << 30));
}

#[test]
fn classes_have_their_fields_at_the_top_level() {
    let class: VolumeSnapshotClass = round_trip(&json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": "fast"},
        "driver": "hostpath.csi.k8s.io",
        "parameters": {"csi.storage.k8s.io/snapshotter-secret-name": "s"},
        "deletionPolicy": "Delete",
    }));
    assert_eq!(class.spec.driver, "hostpath.csi.k8s.io");

    let class: VolumeGroupSnapshotClass = round_trip(&json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1",
        "kind": "VolumeGroupSnapshotClass",
        "metadata": {"name": "fast"},
        "driver": "hostpath.csi.k8s.io",
        "deletionPolicy": "Delete",
    }));
    assert_eq!(class.spec.parameters, None);
}

#[test]
fn group_snapshots_round_trip() {
    let group: VolumeGroupSnapshot = round_trip(&json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1",
        "kind": "VolumeGroupSnapshot",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"source": {"selector": {"matchLabels": {"app": "db"}}}},
        "status": {"boundVolumeGroupSnapshotContentName": "c", "readyToUse": true},
    }));
    assert!(group.spec.source.selector.is_some());

    let content: VolumeGroupSnapshotContent = round_trip(&json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1",
        "kind": "VolumeGroupSnapshotContent",
        "metadata": {"name": "c"},
        "spec": {
            "volumeGroupSnapshotRef": {"name": "g", "namespace": "ns"},
            "deletionPolicy": "Delete",
            "driver": "hostpath.csi.k8s.io",
            "source": {"groupSnapshotHandles": {
                "volumeGroupSnapshotHandle": "g-1",
                "volumeSnapshotHandles": ["s-1", "s-2"],
            }},
        },
        "status": {
            "volumeGroupSnapshotHandle": "g-1",
            "creationTime": "2026-01-02T03:04:05Z",
            "volumeSnapshotInfoList": [
                {"volumeHandle": "v-1", "snapshotHandle": "s-1", "creationTime": 7, "readyToUse": true, "restoreSize": 9},
            ],
        },
    }));
    let members = content.status.unwrap().volume_snapshot_info_list.unwrap();
    assert_eq!(members[0].restore_size, Some(9));
}

#[test]
fn fields_of_a_newer_api_do_not_make_an_object_unreadable() {
    let snapshot: VolumeSnapshot = serde_json::from_value(json!({
        "metadata": {"name": "s"},
        "spec": {"source": {"persistentVolumeClaimName": "data"}, "later": 1},
        "status": {"later": {"a": []}},
    }))
    .unwrap();
    assert_eq!(snapshot.status, Some(VolumeSnapshotStatus::default()));
}

#[test]
fn a_new_object_has_a_name_and_nothing_else_in_its_metadata() {
    let source = VolumeSnapshotSource {
        persistent_volume_claim_name: Some("data".to_owned()),
        ..VolumeSnapshotSource::default()
    };
    let spec = VolumeSnapshotSpec {
        source,
        volume_snapshot_class_name: None,
    };
    let snapshot = VolumeSnapshot::new("s", spec);
    assert_eq!(snapshot.meta().annotations, None);
    assert_eq!(
        serde_json::to_value(&snapshot).unwrap()["spec"],
        json!({"source": {"persistentVolumeClaimName": "data"}})
    );
    assert_eq!(
        VolumeSnapshot::url_path(&(), Some("ns")),
        "/apis/snapshot.storage.k8s.io/v1/namespaces/ns/volumesnapshots"
    );
}
