//! Resources that Zadara's driver left, as it wrote them: they go on where they are, and nothing changes on the array.

use serde_json::{Value, json};
use stowage_api::vpsa::{Snapshot, Volume, VolumeAttachment, Vpsa, VscStorageClass};
use stowage_sim::vpsa::Array;
use stowage_vpsa::rest::api::{Access, NewServer};

use crate::vsc::arrays::{api_of, make_volume};
use crate::vsc::attachments::{node, servers};
use crate::vsc::rig::{Rig, array};
use crate::vsc::volumes::on_array;

const FINALIZER: &str = "storage.zadara.com/vsc-delete-protection";

/// What the array was asked to change so far.
async fn changes(array: &Array) -> u64 {
    let counters = array.control().counters().await.unwrap();
    let changes = counters.iter().filter(|(kind, _)| !kind.starts_with("GET"));
    changes.map(|(_, count)| count).sum()
}

/// A share on a node and its snapshot, made on the array as Zadara's driver does; the identities of server and snapshot.
async fn make(array: &Array) -> (String, String) {
    make_volume(array, "pvc-1").await;
    let api = api_of(array);
    let host = NewServer {
        display_name: "worker-1",
        ip: Some("10.0.0.1"),
        iqn: Some("iqn.1994-05.com.redhat:worker-1"),
        chap: None,
    };
    let server = api.create_server(&host).await.unwrap().done().unwrap();
    let volume = api.volumes().await.unwrap().remove(0);
    let attached = api.attach_volume(&server, &volume.id, Access::Nfs, false);
    attached.await.unwrap().done().unwrap();
    let taken = api.create_snapshot(&volume.cg.unwrap(), "snapshot-1").await;
    let snapshot = taken.unwrap().done().unwrap();
    (server.to_string(), snapshot.to_string())
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "storage.zadara.com/v1", "kind": kind, "spec": spec,
        "metadata": {"name": name, "finalizers": [FINALIZER]}})
}

/// Writes the resources with their status, which has no conditions.
async fn write(rig: &Rig, server: &str, snapshot: &str) {
    let spec = json!({"VSCStorageClassName": "gold", "displayName": "pvc-1", "size": "10Gi", "volumeType": "NAS",
        "flags": {"compress": false, "dedupe": false, "encrypt": false}});
    rig.create::<Volume>(object("Volume", "pvc-1", &spec)).await;
    let status = json!({"state": "Ready", "VPSAID": "one", "ID": "volume-00000001", "CGID": "cg-00000001",
        "poolID": "pool-00010001", "NAS": {"NFSExportPath": "127.0.0.1:/export/pvc-1", "autoExpandEnabled": false}});
    rig.patch_status::<Volume>("pvc-1", json!({"status": status}))
        .await;
    let spec = json!({"volumeName": "pvc-1", "VSCNodeName": "worker-1", "attachType": "NFS", "readOnly": false});
    rig.create::<VolumeAttachment>(object("VolumeAttachment", "pvc-1.worker-1", &spec))
        .await;
    let status = json!({"state": "Ready", "VPSAServerID": server, "NAS": {},
        "Block": {"lun": 0, "target": "", "ISCSIStatus": "N/A (NAS)"}});
    rig.patch_status::<VolumeAttachment>("pvc-1.worker-1", json!({"status": status}))
        .await;
    let spec = json!({"displayName": "snapshot-1", "volumeID": "pvc-1"});
    rig.create::<Snapshot>(object("Snapshot", "snapshot-1", &spec))
        .await;
    let status = json!({"state": "Ready", "size": "10Gi", "VPSAID": "one", "CGID": "cg-00000001",
        "poolID": "pool-00010001", "VPSAVolumeID": "volume-00000001", "VPSASnapshotID": snapshot});
    rig.patch_status::<Snapshot>("snapshot-1", json!({"status": status}))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_zadaras_driver_made_goes_on_without_a_change_on_the_array() {
    let mut rig = Rig::start().await;
    let (array, _data) = array(|_| {}).await;
    let (server, snapshot) = make(&array).await;
    rig.class("gold", json!({"isDefault": true})).await;
    rig.until::<VscStorageClass>("gold", |it| it["status"]["state"] == "Ready")
        .await;
    rig.stop_plane().await;
    rig.vpsa("one", "gold", &array).await;
    // Nobody but that driver can read what it encrypted.
    rig.patch::<Vpsa>("one", json!({"spec": {"token": "AES:aGVsbG8="}}))
        .await;
    rig.patch_status::<Vpsa>(
        "one",
        json!({"status": {"state": "Ready", "IQN": "iqn.x", "LegacyVPSA": false}}),
    )
    .await;
    node(
        &rig,
        "worker-1",
        "10.0.0.1",
        Some("iqn.1994-05.com.redhat:worker-1"),
    )
    .await;
    write(&rig, &server, &snapshot).await;
    let before = changes(&array).await;

    rig.start_plane();
    rig.vpsa_is("one", "Unreachable", "InvalidSpec").await;
    let message = rig.event("one", "Unreachable").await;
    assert!(message.contains("`token`"), "{message}");
    rig.patch::<Vpsa>("one", json!({"spec": {"token": array.access_key()}}))
        .await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    let is_ready = |it: &Value| {
        let ready = &it["status"]["conditions"][0];
        it["status"]["state"] == "Ready" && ready["status"] == "True"
    };
    let volume = rig.until::<Volume>("pvc-1", is_ready).await;
    assert_eq!(volume["status"]["capacity"], "10Gi");
    rig.until::<VolumeAttachment>("pvc-1.worker-1", is_ready)
        .await;
    rig.until::<Snapshot>("snapshot-1", is_ready).await;
    assert_eq!(changes(&array).await, before);

    // From now on it is ours.
    rig.delete::<VolumeAttachment>("pvc-1.worker-1").await;
    rig.delete::<Snapshot>("snapshot-1").await;
    rig.delete::<Volume>("pvc-1").await;
    rig.until::<Volume>("pvc-1", Value::is_null).await;
    assert_eq!(
        (on_array(&array).await, servers(&array).await),
        (vec![], vec![])
    );
    is_gone(&rig).await;
}

async fn is_gone(rig: &Rig) {
    rig.until::<VolumeAttachment>("pvc-1.worker-1", Value::is_null)
        .await;
    rig.until::<Snapshot>("snapshot-1", Value::is_null).await;
}
