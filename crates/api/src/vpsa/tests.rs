//! Objects as Zadara's driver writes them, read and written again, and what the definitions promise.

use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::CrdGroup;

/// Reads an object and returns it; fails if writing it again gives anything else.
fn round_trip<T: Serialize + DeserializeOwned>(kind: &str, rest: &Value) -> T {
    let mut wire = json!({
        "apiVersion": "storage.zadara.com/v1",
        "kind": kind,
        "metadata": {"name": "n", "finalizers": [FINALIZER]},
    });
    let fields = wire.as_object_mut().unwrap();
    fields.extend(rest.as_object().unwrap().clone());
    let object: T = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), wire);
    object
}

#[test]
fn a_class_round_trips() {
    let class: VscStorageClass = round_trip(
        "VSCStorageClass",
        &json!({
            "spec": {
                "displayName": "All flash", "description": "fast", "isDefault": true,
                "volumeFlags": {"compress": true, "dedupe": false, "encrypt": false, "extra": {"readaheadkb": "64"}},
            },
            "status": {
                "state": "Ready",
                "capacity": {"total": "10Ti", "available": "0", "mode": "protected"},
                "counters": {"VPSA": 2, "pools": 2, "snapshots": 5, "volumes": 7},
            },
        }),
    );
    let status = class.status.unwrap();
    assert_eq!(status.state, ClassState::Ready);
    assert_eq!(status.capacity.unwrap().mode, CapacityMode::Protected);
    assert_eq!(status.counters.unwrap().vpsa, 2);
}

#[test]
fn an_array_round_trips_and_shows_no_secret() {
    let vpsa: Vpsa = round_trip(
        "VPSA",
        &json!({
            "spec": {
                "VSCStorageClassName": "class", "displayName": "one", "description": "d",
                "hostname": "vsa-00000001-cloud.example", "token": "AES:c2VjcmV0",
            },
            "status": {
                "state": "Unreachable", "CHAPUser": "user", "CHAPSecret": "AES:Y2hhcA==",
                "IQN": "iqn.2011-04.com.zadarastorage:vsa-00000001:1", "ExternalManageToken": "AES:bWFuYWdl",
                "LegacyVPSA": true, "capacity": {"total": "1Ti", "available": "1Gi", "mode": "normal"},
                "counters": {"pools": 1, "snapshots": 0, "volumes": 3},
                "version": {"softwareVersion": "22.06-sp1-123"},
            },
        }),
    );
    let shown = format!("{vpsa:?}");
    for secret in ["c2VjcmV0", "Y2hhcA", "bWFuYWdl"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert_eq!(vpsa.spec.token.unwrap().expose(), "AES:c2VjcmV0");
    assert_eq!(vpsa.status.unwrap().state, VpsaState::Unreachable);
}

#[test]
fn a_node_with_and_without_iscsi_round_trips() {
    let node: VscNode = round_trip(
        "VSCNode",
        &json!({
            "spec": {"displayName": "w", "NAS": {"IP": "10.0.0.7"}, "block": {"IQN": "iqn.1993-08.org.debian:01:7"}},
            "status": {},
        }),
    );
    assert_eq!(node.spec.block.unwrap().iqn, "iqn.1993-08.org.debian:01:7");
    let node: VscNode = round_trip(
        "VSCNode",
        &json!({"spec": {"displayName": "w", "NAS": {"IP": "10.0.0.7"}}}),
    );
    assert_eq!(node.spec.block, None);
}

#[test]
fn volumes_round_trip_whoever_made_them() {
    let fields = json!({
        "spec": {
            "VSCStorageClassName": "class", "displayName": "pvc-1", "size": "50Gi", "volumeType": "NAS",
            "flags": {"compress": false, "dedupe": false, "encrypt": true},
        },
        "status": {
            "state": "Cloning", "VPSAID": "one", "ID": "", "CGID": "cg-00000002", "poolID": "pool-00010003",
            "NAS": {"NFSExportPath": "10.1.1.1:/export/pvc-1", "autoExpandEnabled": false},
        },
    });
    let volume: Volume = round_trip("Volume", &fields);
    let status = volume.status.unwrap();
    assert_eq!(
        (status.state, status.id.as_str()),
        (VolumeState::Cloning, "")
    );
    let external: ExternalVolume = round_trip("ExternalVolume", &fields);
    assert_eq!(external.spec.volume.volume_type, VolumeType::Nas);
    assert_eq!(
        external.status.unwrap().nas.unwrap().nfs_export_path,
        "10.1.1.1:/export/pvc-1"
    );
}

#[test]
fn attachments_round_trip() {
    let attachment: VolumeAttachment = round_trip(
        "VolumeAttachment",
        &json!({
            "spec": {"volumeName": "pvc-1", "VSCNodeName": "w", "attachType": "ISCSI", "readOnly": false},
            "status": {
                "state": "ISCSILoginPending", "VPSAServerID": "srv-00000001",
                "Block": {"lun": 3, "target": "iqn.2011-04.com.zadarastorage:vsa-00000001:1", "ISCSIStatus": "Disconnected"},
            },
        }),
    );
    let status = attachment.status.unwrap();
    assert_eq!(status.state, AttachmentState::IscsiLoginPending);
    assert_eq!(status.block.unwrap().lun, 3);
    let share: VolumeAttachment = round_trip(
        "VolumeAttachment",
        &json!({
            "spec": {"volumeName": "pvc-1", "VSCNodeName": "w", "attachType": "NFS", "readOnly": true},
            "status": {
                "state": "Ready", "VPSAServerID": "srv-00000001", "NAS": {},
                "Block": {"lun": 0, "target": "", "ISCSIStatus": "N/A (NAS)"},
            },
        }),
    );
    let block = share.status.unwrap().block.unwrap();
    assert_eq!(block.iscsi_status, Some(IscsiStatus::NotApplicable));
}

#[test]
fn a_snapshot_round_trips() {
    let snapshot: Snapshot = round_trip(
        "Snapshot",
        &json!({
            "spec": {"displayName": "snapshot-1", "description": "d", "volumeID": "pvc-1"},
            "status": {
                "state": "TakingSnapshot", "size": "50Gi", "createdTimestamp": "2026-01-02T03:04:05Z", "VPSAID": "one",
                "CGID": "cg-00000002", "poolID": "pool-00010003", "VPSAVolumeID": "volume-00000002",
                "VPSASnapshotID": "snap-00000001",
            },
        }),
    );
    assert_eq!(snapshot.spec.volume_id, "pvc-1");
    assert_eq!(
        snapshot.status.unwrap().state,
        SnapshotState::TakingSnapshot
    );
}

#[test]
fn what_is_newer_round_trips_too() {
    let condition = json!({
        "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "Unreachable",
        "message": "no route", "observedGeneration": 4,
    });
    let vpsa: Vpsa = round_trip(
        "VPSA",
        &json!({
            "spec": {
                "VSCStorageClassName": "class", "displayName": "", "hostname": "10.0.0.1:8443",
                "tokenSecretRef": {"namespace": "ns", "name": "key", "key": "token"},
                "tls": {"enabled": true, "caCertificate": "PEM", "insecureSkipVerify": false},
            },
            "status": {"state": "Importing", "observedGeneration": 4, "conditions": [condition]},
        }),
    );
    let status = vpsa.status.unwrap();
    assert_eq!(status.state, VpsaState::Importing);
    assert_eq!(status.observed.conditions[0].reason, "Unreachable");
    let volume: Volume = round_trip(
        "Volume",
        &json!({"spec": {
            "VSCStorageClassName": "class", "displayName": "d", "size": "1Gi", "volumeType": "Block",
            "cloneSource": {"kind": "Snapshot", "name": "snapshot-1"},
        }}),
    );
    let source = volume.spec.clone_source.unwrap();
    assert_eq!(source.kind, CloneSourceKind::Snapshot);
    let _: VscStorageClass = round_trip(
        "VSCStorageClass",
        &json!({"spec": {"displayName": "d", "poolName": "pool-00010003", "volumeType": "Block"}}),
    );
    let _: Snapshot = round_trip(
        "Snapshot",
        &json!({"spec": {"displayName": "d", "volumeID": "v", "deletionPolicy": "Retain"}}),
    );
}

#[test]
fn what_is_missing_null_or_unknown_makes_no_object_unreadable() {
    let vpsa: Vpsa = serde_json::from_value(json!({
        "metadata": {"name": "old"},
        "spec": {"VSCStorageClassName": null, "hostname": null, "later": {"a": [1]}},
        "status": {"state": "Pondering", "capacity": {"total": 1024}, "later": 1},
    }))
    .unwrap();
    assert_eq!(vpsa.spec.display_name, "");
    assert!(vpsa.spec.unknown.contains_key("later"));
    let status = vpsa.status.unwrap();
    assert_eq!(status.state, VpsaState::Other("Pondering".to_owned()));
    assert!(status.unknown.contains_key("later"));
    let capacity = status.capacity.unwrap();
    assert_eq!(
        (capacity.total.0.as_str(), capacity.available.0.as_str()),
        ("1024", "0")
    );

    let empty = json!({"metadata": {"name": "e"}, "spec": {}, "status": {}});
    let read = |text: &Value| serde_json::from_value::<Volume>(text.clone()).unwrap();
    let status = read(&empty).status.unwrap();
    assert_eq!(
        (status.state, status.id.as_str()),
        (VolumeState::Creating, "")
    );
    let written = serde_json::to_value(read(&empty)).unwrap();
    // Zadara's definition requires these four of a status.
    for field in ["VPSAID", "ID", "CGID", "poolID"] {
        assert_eq!(written["status"][field], "", "{field}");
    }
    serde_json::from_value::<VolumeAttachment>(empty.clone()).unwrap();
    serde_json::from_value::<ExternalVolume>(empty.clone()).unwrap();
    serde_json::from_value::<Snapshot>(empty.clone()).unwrap();
    serde_json::from_value::<VscNode>(empty.clone()).unwrap();
    let class: VscStorageClass = serde_json::from_value(empty).unwrap();
    assert_eq!(class.status.unwrap().state, ClassState::Creating);
}

#[test]
fn the_worst_capacity_mode_is_the_greatest() {
    let modes = CapacityMode::WORDS
        .iter()
        .map(|word| CapacityMode::from(*word));
    assert!(modes.clone().is_sorted());
    assert_eq!(modes.max(), Some(CapacityMode::Emergency));
}

#[test]
fn columns_are_those_of_the_original() {
    let columns: Vec<String> = CrdGroup::Vpsa
        .crds()
        .into_iter()
        .map(|crd| {
            let columns = crd.spec.versions[0].additional_printer_columns.clone();
            let shown: Vec<_> = columns
                .unwrap()
                .into_iter()
                .map(|column| match column.priority {
                    Some(1) => format!("({})", column.name),
                    _ => column.name,
                })
                .collect();
            format!("{}: {}", crd.spec.names.kind, shown.join(", "))
        })
        .collect();
    assert_eq!(
        columns,
        [
            "VSCStorageClass: Status, Default, Members, Capacity Mode, (Total), (Available), Age",
            "VPSA: Status, Display Name, (Hostname), (Version), Capacity Mode, (Total), (Available), VSC, Age",
            "VSCNode: IP, IQN, Age",
            "Volume: Display Name, Status, Type, Capacity, VPSA, (VPSA Volume ID), Age",
            "ExternalVolume: Type, Capacity, VPSA, VPSA Volume ID, Age",
            "VolumeAttachment: Status, ISCSI, Volume, VSCNode, Age",
            "Snapshot: Status, Volume, Age",
        ]
    );
}

#[test]
fn objects_are_found_where_the_original_has_them() {
    assert_eq!(
        Vpsa::url_path(&(), None),
        "/apis/storage.zadara.com/v1/vpsas"
    );
    assert_eq!(VscStorageClass::plural(&()), "vscstorageclasses");
}

/// A mistyped or a newer field must reach the controller, and one of the original's must stay.
#[test]
fn no_object_drops_unknown_fields() {
    fn check(path: &str, schema: &Value) {
        let keeps = schema["x-kubernetes-preserve-unknown-fields"] == true;
        let is_map = schema["additionalProperties"].is_object();
        assert!(schema["type"] != "object" || keeps || is_map, "{path}");
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            check(&format!("{path}.{name}"), property);
        }
    }
    for crd in CrdGroup::Vpsa.crds() {
        let schema = crd.spec.versions[0].schema.clone().unwrap();
        let schema = serde_json::to_value(schema.open_api_v3_schema.unwrap()).unwrap();
        for part in ["spec", "status"] {
            let path = format!("{}.{part}", crd.spec.names.kind);
            check(&path, &schema["properties"][part]);
        }
    }
}
