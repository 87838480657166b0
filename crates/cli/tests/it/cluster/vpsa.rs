//! The kinds of the VPSA driver on a real server.

use serde_json::{Value, json};
use stowage_api::vpsa::{
    ExternalVolume, Snapshot, Volume, VolumeAttachment, Vpsa, VscNode, VscStorageClass,
};

use crate::cluster::definitions::round_trip;
use crate::cluster::{apply, kubectl_with, server};

fn object(kind: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "storage.zadara.com/v1",
        "kind": kind,
        "metadata": {"name": name},
    });
    let fields = object.as_object_mut().unwrap();
    fields.extend(rest.as_object().unwrap().clone());
    object
}

fn condition() -> Value {
    json!([{
        "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "Ready",
        "message": "", "observedGeneration": 1,
    }])
}

#[test]
fn objects_of_every_kind_keep_all_their_fields() {
    round_trip::<VscStorageClass>(
        "vscsc",
        &object(
            "VSCStorageClass",
            "class",
            &json!({
                "spec": {
                    "displayName": "d", "description": "e", "isDefault": false, "poolName": "fast", "volumeType": "Block",
                    "volumeFlags": {"compress": true, "dedupe": true, "encrypt": false, "extra": {"a": "b"}}, "later": 1,
                },
                "status": {
                    "state": "Ready", "capacity": {"total": "1Ti", "available": "1Gi", "mode": "normal"},
                    "counters": {"VPSA": 1, "pools": 1, "snapshots": 0, "volumes": 0},
                    "observedGeneration": 1, "conditions": condition(),
                },
            }),
        ),
    );
    round_trip::<Vpsa>(
        "vpsa",
        &object(
            "VPSA",
            "one",
            &json!({
                "spec": {
                    "VSCStorageClassName": "class", "displayName": "d", "hostname": "10.0.0.1", "token": "t",
                    "tokenSecretRef": {"namespace": "n", "name": "s"}, "tls": {"caCertificate": "PEM"},
                },
                "status": {
                    "state": "Importing", "CHAPUser": "u", "CHAPSecret": "AES2:x", "IQN": "iqn.x", "LegacyVPSA": false,
                    "version": {"softwareVersion": "23.09-1"}, "conditions": condition(), "ofTheOriginal": {"a": 1},
                },
            }),
        ),
    );
    round_trip::<VscNode>(
        "vscnode",
        &object(
            "VSCNode",
            "worker",
            &json!({"spec": {"displayName": "w", "NAS": {"IP": "10.0.0.7"}, "block": {"IQN": "iqn.y"}}}),
        ),
    );
    round_trip::<VolumeAttachment>(
        "vas",
        &object(
            "VolumeAttachment",
            "pvc-1.worker",
            &json!({
                "spec": {"volumeName": "pvc-1", "VSCNodeName": "worker", "attachType": "ISCSI", "readOnly": true},
                "status": {
                    "state": "Ready", "VPSAServerID": "srv-00000001", "NAS": {},
                    "Block": {"lun": 0, "target": "", "ISCSIStatus": "N/A (NAS)"}, "conditions": condition(),
                },
            }),
        ),
    );
    round_trip::<Snapshot>(
        "snapshots.storage.zadara.com",
        &object(
            "Snapshot",
            "snapshot-1",
            &json!({
                "spec": {"displayName": "s", "volumeID": "pvc-1", "deletionPolicy": "Retain"},
                "status": {
                    "state": "Ready", "size": "1Gi", "createdTimestamp": "2026-01-02T03:04:05Z", "VPSAID": "one",
                    "CGID": "cg-1", "poolID": "pool-1", "VPSAVolumeID": "volume-1", "VPSASnapshotID": "snap-1",
                },
            }),
        ),
    );
}

#[test]
fn volumes_keep_all_their_fields_and_texts_that_are_not_known_yet() {
    let fields = json!({
        "spec": {
            "VSCStorageClassName": "class", "displayName": "d", "size": "50Gi", "volumeType": "NAS",
            "cloneSource": {"kind": "Volume", "name": "other"},
        },
        "status": {
            // What the original writes before an array is chosen, and what 1.20 takes for null.
            "state": "Creating", "VPSAID": "", "ID": "", "CGID": "", "poolID": "", "capacity": "50Gi",
            "NAS": {"NFSExportPath": "10.1.1.1:/export/d", "autoExpandEnabled": false}, "Block": {"target": "iqn.x"},
            "conditions": condition(),
        },
    });
    round_trip::<Volume>(
        "volumes.storage.zadara.com",
        &object("Volume", "pvc-1", &fields),
    );
    round_trip::<ExternalVolume>(
        "externalvolumes",
        &object("ExternalVolume", "one-d", &fields),
    );
}

#[test]
fn an_array_from_before_display_names_can_still_be_changed() {
    let old =
        json!({"spec": {"VSCStorageClassName": "class", "hostname": "10.0.0.2", "token": "t"}});
    apply(&object("VPSA", "old", &old)).unwrap();
    let finalizer = r#"{"metadata": {"finalizers": ["storage.zadara.com/vsc-delete-protection"]}}"#;
    server()
        .kubectl(&["patch", "vpsa", "old", "--type=merge", "-p", finalizer])
        .unwrap();
}

#[test]
fn wrong_objects_are_refused() {
    let volume = |change: Value| {
        let mut spec = json!({
            "VSCStorageClassName": "c", "displayName": "d", "size": "1Gi", "volumeType": "NAS",
        });
        spec.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        json!({ "spec": spec })
    };
    for (kind, fields, reason) in [
        (
            "VSCStorageClass",
            json!({"spec": {}}),
            "spec.displayName: Required",
        ),
        (
            "VSCStorageClass",
            json!({"spec": {"displayName": "d", "volumeType": "Tape"}}),
            "spec.volumeType: Unsupported",
        ),
        (
            "VPSA",
            json!({"spec": {"displayName": "d"}}),
            "spec.VSCStorageClassName: Required",
        ),
        (
            "Volume",
            volume(json!({"volumeType": "Tape"})),
            "spec.volumeType: Unsupported",
        ),
        (
            "Volume",
            volume(json!({"cloneSource": {"kind": "Disk", "name": "n"}})),
            "spec.cloneSource.kind: Unsupported",
        ),
        (
            "ExternalVolume",
            json!({"spec": {"displayName": "d"}}),
            "spec.size: Required",
        ),
        (
            "VolumeAttachment",
            json!({"spec": {"volumeName": "v"}}),
            "spec.VSCNodeName: Required",
        ),
        (
            "Snapshot",
            json!({"spec": {"displayName": "d"}}),
            "spec.volumeID: Required",
        ),
        (
            "VSCNode",
            json!({"spec": {"displayName": "d", "NAS": {}}}),
            "spec.NAS.IP: Required",
        ),
    ] {
        let object = object(kind, "wrong", &fields);
        let error = kubectl_with(&["apply", "--validate=false"], &object)
            .expect_err(&format!("{kind} {fields}"));
        assert!(error.contains(reason), "{kind} {fields}: {error}");
    }
}
