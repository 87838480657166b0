//! The definitions of `deploy/crds` on a real server.

use serde_json::{Value, json};
use stowage_api::CrdGroup;
use stowage_api::snapshot::{
    VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent, VolumeSnapshot,
    VolumeSnapshotClass, VolumeSnapshotContent,
};

use crate::cluster::{apply, crd_files, kubectl_with, server};

fn get(kind: &str, name: &str) -> Value {
    let text = server()
        .kubectl(&["get", kind, name, "-o", "json"])
        .unwrap();
    serde_json::from_str(&text).unwrap()
}

fn object(kind: &str, name: &str, rest: Value) -> Value {
    let group = if kind.starts_with("VolumeGroup") {
        "groupsnapshot"
    } else {
        "snapshot"
    };
    let mut object = json!({
        "apiVersion": format!("{group}.storage.k8s.io/v1"),
        "kind": kind,
        "metadata": {"name": name},
    });
    let fields = object.as_object_mut().unwrap();
    let Value::Object(rest) = rest else {
        panic!("fields of {kind} are an object")
    };
    fields.extend(rest);
    object
}

/// Creates the object, sets its status, reads it back by its short name, and reads and writes it as `T`:
/// nothing may have been dropped by the server or by our types.
pub fn round_trip<T>(short_name: &str, wire: &Value)
where
    T: kube::Resource<DynamicType = ()> + serde::Serialize + serde::de::DeserializeOwned,
{
    let name = wire["metadata"]["name"].as_str().unwrap();
    apply(wire).unwrap();
    if let Some(status) = wire.get("status") {
        // As a controller does it: kubectl 1.20 has no word for subresources.
        let mut object = get(short_name, name);
        object["status"] = status.clone();
        let path = T::url_path(&(), object["metadata"]["namespace"].as_str());
        let path = format!("{path}/{name}/status");
        kubectl_with(&["replace", "--raw", &path], &object).unwrap();
    }
    let stored = get(short_name, name);
    let typed: T = serde_json::from_value(stored.clone()).unwrap();
    let written = serde_json::to_value(typed).unwrap();
    for (key, value) in wire.as_object().unwrap() {
        if key != "metadata" {
            assert_eq!(stored[key], *value, "stored {short_name}: {key}");
            assert_eq!(written[key], *value, "written {short_name}: {key}");
        }
    }
}

#[test]
fn definitions_can_be_applied_again_and_again() {
    let again = server().kubectl(&["apply", "-f", &crd_files()]).unwrap();
    let lines: Vec<_> = again.lines().collect();
    let all = CrdGroup::ALL.iter().flat_map(|group| group.crds());
    assert_eq!(lines.len(), all.count(), "{again}");
    assert!(
        lines.iter().all(|line| line.ends_with(" unchanged")),
        "{again}"
    );
}

#[test]
fn objects_of_every_kind_keep_all_their_fields() {
    let class = json!({"driver": "d", "parameters": {"a": "b"}, "deletionPolicy": "Delete"});
    round_trip::<VolumeSnapshotClass>(
        "vsclass",
        &object("VolumeSnapshotClass", "c", class.clone()),
    );
    round_trip::<VolumeGroupSnapshotClass>(
        "vgsclass",
        &object("VolumeGroupSnapshotClass", "c", class),
    );
    let error = json!({"time": "2026-01-02T03:04:06Z", "message": "busy"});
    round_trip::<VolumeSnapshot>(
        "vs",
        &object(
            "VolumeSnapshot",
            "s",
            json!({
                "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "c"},
                "status": {
                    "boundVolumeSnapshotContentName": "content", "creationTime": "2026-01-02T03:04:05Z",
                    "readyToUse": true, "restoreSize": "1Gi", "error": error, "volumeGroupSnapshotName": "g",
                },
            }),
        ),
    );
    round_trip::<VolumeSnapshotContent>(
        "vsc",
        &object(
            "VolumeSnapshotContent",
            "content",
            json!({
                "spec": {
                    "volumeSnapshotRef": {"name": "s", "namespace": "default", "uid": "u"},
                    "deletionPolicy": "Retain", "driver": "d", "volumeSnapshotClassName": "c",
                    "source": {"volumeHandle": "v"}, "sourceVolumeMode": "Filesystem",
                },
                "status": {
                    "snapshotHandle": "h", "creationTime": 1_767_323_045_000_000_001_i64, "restoreSize": 1024,
                    "readyToUse": true, "error": error, "volumeGroupSnapshotHandle": "g",
                },
            }),
        ),
    );
    let labels = json!({"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]});
    round_trip::<VolumeGroupSnapshot>(
        "vgs",
        &object(
            "VolumeGroupSnapshot",
            "g",
            json!({
                "spec": {"source": {"selector": labels}, "volumeGroupSnapshotClassName": "c"},
                "status": {
                    "boundVolumeGroupSnapshotContentName": "content", "creationTime": "2026-01-02T03:04:05Z",
                    "readyToUse": false, "error": error,
                },
            }),
        ),
    );
    round_trip::<VolumeGroupSnapshotContent>(
        "vgsc",
        &object(
            "VolumeGroupSnapshotContent",
            "content",
            json!({
                "spec": {
                    "volumeGroupSnapshotRef": {"name": "g", "namespace": "default"},
                    "deletionPolicy": "Delete", "driver": "d", "volumeGroupSnapshotClassName": "c",
                    "source": {"groupSnapshotHandles": {
                        "volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["a", "b"],
                    }},
                },
                "status": {
                    "volumeGroupSnapshotHandle": "g", "creationTime": "2026-01-02T03:04:05Z", "readyToUse": true,
                    "error": error,
                    "volumeSnapshotInfoList": [{
                        "volumeHandle": "v", "snapshotHandle": "a", "creationTime": 7, "readyToUse": true,
                        "restoreSize": 9,
                    }],
                },
            }),
        ),
    );
}

/// By the server itself: kubectl's own validation is switched off.
#[test]
fn incomplete_objects_are_refused() {
    let reference = json!({"name": "s", "namespace": "default"});
    for (kind, fields, reason) in [
        ("VolumeSnapshot", json!({}), "spec: Required"),
        (
            "VolumeSnapshot",
            json!({"spec": {}}),
            "spec.source: Required",
        ),
        (
            "VolumeSnapshot",
            json!({"spec": {"source": {}}}),
            "spec.source",
        ),
        (
            "VolumeSnapshot",
            json!({"spec": {"source": {"persistentVolumeClaimName": "a", "volumeSnapshotContentName": "b"}}}),
            "spec.source",
        ),
        (
            "VolumeSnapshot",
            json!({"spec": {"source": {"persistentVolumeClaimName": "a"}, "volumeSnapshotClassName": ""}}),
            "spec.volumeSnapshotClassName",
        ),
        (
            "VolumeSnapshotClass",
            json!({"driver": "d"}),
            "deletionPolicy: Required",
        ),
        (
            "VolumeSnapshotClass",
            json!({"driver": "d", "deletionPolicy": "Keep"}),
            "deletionPolicy: Unsupported",
        ),
        (
            "VolumeSnapshotContent",
            json!({"spec": {
                "volumeSnapshotRef": {"name": "s"}, "deletionPolicy": "Delete", "driver": "d",
                "source": {"volumeHandle": "v"},
            }}),
            "spec.volumeSnapshotRef.namespace: Required",
        ),
        (
            "VolumeSnapshotContent",
            json!({"spec": {"volumeSnapshotRef": reference, "deletionPolicy": "Delete", "source": {"volumeHandle": "v"}}}),
            "spec.driver: Required",
        ),
        (
            "VolumeGroupSnapshot",
            json!({"spec": {"source": {}}}),
            "spec.source",
        ),
        (
            "VolumeGroupSnapshotClass",
            json!({"deletionPolicy": "Delete"}),
            "driver: Required",
        ),
        (
            "VolumeGroupSnapshotContent",
            json!({"spec": {
                "volumeGroupSnapshotRef": reference, "deletionPolicy": "Delete", "driver": "d",
                "source": {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g"}},
            }}),
            "volumeSnapshotHandles: Required",
        ),
    ] {
        let error = kubectl_with(
            &["apply", "--validate=false"],
            &object(kind, "incomplete", fields.clone()),
        )
        .expect_err(&format!("{kind} {fields}"));
        assert!(error.contains(reason), "{kind} {fields}: {error}");
    }
}
