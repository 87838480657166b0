//! VolumeAttachments: a Server record for each node, shared by its attachments, repaired, and gone with the last of them.

use serde_json::{Value, json};
use stowage_api::vpsa::{Volume, VolumeAttachment, VscNode};
use stowage_sim::vpsa::Array;
use stowage_sim::vpsa::control::trouble::Own;
use stowage_sim::vpsa::control::{Fault, Trouble};
use stowage_vpsa::rest::api::NewServer;

use crate::vsc::arrays::api_of;
use crate::vsc::rig::{PATIENCE, Rig, array};

/// A node of the cluster, and its VSCNode, which would go without it.
pub async fn node(rig: &Rig, name: &str, ip: &str, iqn: Option<&str>) {
    let machine = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    rig.apply(&machine.to_string());
    let mut spec = json!({"displayName": name, "NAS": {"IP": ip}});
    if let Some(iqn) = iqn {
        spec["block"] = json!({"IQN": iqn});
    }
    let object = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VSCNode", "metadata": {"name": name}, "spec": spec});
    rig.create::<VscNode>(object).await;
}

pub async fn attach(rig: &Rig, volume: &str, node: &str, attach_type: &str) -> String {
    let name = format!("{volume}.{node}");
    let object = json!({"apiVersion": "storage.zadara.com/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {"volumeName": volume, "VSCNodeName": node, "attachType": attach_type, "readOnly": false}});
    rig.create::<VolumeAttachment>(object).await;
    name
}

pub async fn is(rig: &Rig, name: &str, state: &str) -> Value {
    let is = |it: &Value| it["status"]["state"] == state;
    rig.until::<VolumeAttachment>(name, is).await
}

/// Server records: name, address, initiator.
pub async fn servers(array: &Array) -> Vec<(String, String, String)> {
    let objects = array.control().objects().await.unwrap();
    let servers = objects.servers.values();
    let mut all: Vec<_> = servers
        .map(|it| (it.display_name.clone(), it.ip.clone(), it.iqn.clone()))
        .collect();
    all.sort();
    all
}

async fn ready_rig(array: &Array) -> Rig {
    let rig = Rig::start().await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_one_record_for_all_its_volumes_which_goes_with_the_last() {
    let (array, _data) = array(|_| {}).await;
    let rig = ready_rig(&array).await;
    // Answers are lost on the way, and nothing is made twice for it.
    for path in ["servers", "servers/*/volumes"] {
        let fault = Fault {
            method: Some("POST".to_owned()),
            path: Some(path.to_owned()),
            times: Some(1),
            trouble: Trouble::from(Own::DoneButGarbage),
            ..Fault::default()
        };
        array.control().add_fault(fault).await.unwrap();
    }
    let share = attach(&rig, "share", "n", "NFS").await;
    is(&rig, &share, "Creating").await;
    rig.volume("share", "10Gi", json!({})).await;
    rig.volume("disk", "10Gi", json!({"volumeType": "Block"}))
        .await;
    node(&rig, "n", "10.0.0.1", Some("iqn.2026-01.x:n")).await;
    let attached = is(&rig, &share, "Ready").await;
    let server = attached["status"]["VPSAServerID"].clone();
    assert!(server.is_string(), "{attached}");

    let disk = attach(&rig, "disk", "n", "ISCSI").await;
    let pending = is(&rig, &disk, "ISCSILoginPending").await;
    assert_eq!(pending["status"]["VPSAServerID"], server);
    assert_eq!(pending["status"]["Block"]["lun"], 0);
    assert_eq!(pending["status"]["Block"]["ISCSIStatus"], "Disconnected");
    let target = pending["status"]["Block"]["target"].as_str().unwrap();
    assert!(target.starts_with("iqn."), "{target}");
    let session = json!({"status": {"Block": {"ISCSIStatus": "Active"}}});
    rig.patch_status::<VolumeAttachment>(&disk, session).await;
    is(&rig, &disk, "Ready").await;
    let expected = [(
        "n".to_owned(),
        "10.0.0.1".to_owned(),
        "iqn.2026-01.x:n".to_owned(),
    )];
    assert_eq!(servers(&array).await, expected);

    // A volume waits for its attachments.
    rig.delete::<Volume>("share").await;
    let waits = |it: &Value| it["status"]["conditions"][0]["reason"] == "Attached";
    rig.until::<Volume>("share", waits).await;
    rig.delete::<VolumeAttachment>(&share).await;
    rig.until::<VolumeAttachment>(&share, Value::is_null).await;
    rig.until::<Volume>("share", Value::is_null).await;
    assert_eq!(servers(&array).await, expected);
    rig.delete::<VolumeAttachment>(&disk).await;
    rig.until::<VolumeAttachment>(&disk, Value::is_null).await;
    assert_eq!(servers(&array).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_edited_by_hand_is_repaired_and_one_of_others_is_used_and_left() {
    let (array, _data) = array(|_| {}).await;
    let rig = ready_rig(&array).await;
    let api = api_of(&array);
    let theirs = NewServer {
        display_name: "by_hand",
        ip: Some("10.0.0.2"),
        iqn: None,
        chap: None,
    };
    api.create_server(&theirs).await.unwrap().done().unwrap();
    rig.volume("v", "10Gi", json!({})).await;
    node(&rig, "n", "10.0.0.1", None).await;
    node(&rig, "other", "10.0.0.2", None).await;
    let (own, other) = (
        attach(&rig, "v", "n", "NFS").await,
        attach(&rig, "v", "other", "NFS").await,
    );
    let own_id = is(&rig, &own, "Ready").await["status"]["VPSAServerID"].clone();
    is(&rig, &other, "Ready").await;
    assert_eq!(servers(&array).await.len(), 2);

    let (server, volume) = (
        own_id.as_str().unwrap().parse().unwrap(),
        api.volumes().await.unwrap(),
    );
    let done = api.detach_volume(&volume[0].id, &[&server]).await;
    done.unwrap().done().unwrap();
    let edited = NewServer {
        display_name: "n",
        ip: Some("10.9.9.9"),
        ..theirs
    };
    let done = api.configure_server(&server, &edited).await;
    done.unwrap().done().unwrap();
    // It is noticed with the next list of what is on the array.
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let attached = api.volume_servers(&volume[0].id).await.unwrap();
        let back = attached
            .iter()
            .any(|it| it.server.id == server && it.server.iscsi_ip == "10.0.0.1");
        if back {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{attached:?}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let message = rig.event(&own, "ServerRepaired").await;
    let says = format!("Server record `n` ({server}) had the address `10.9.9.9`");
    assert!(message.starts_with(&says), "{message}");
    for name in [&own, &other] {
        rig.delete::<VolumeAttachment>(name).await;
        rig.until::<VolumeAttachment>(name, Value::is_null).await;
    }
    let left = ("by_hand".to_owned(), "10.0.0.2".to_owned(), String::new());
    assert_eq!(servers(&array).await, [left]);

    let disk = attach(&rig, "v", "n", "ISCSI").await;
    is(&rig, &disk, "Failed").await;
    let message = rig.event(&disk, "NodeNotFit").await;
    assert!(message.contains("install open-iscsi"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_address_changes_gets_its_shares_while_a_disk_stays_attached() {
    let (array, _data) = array(|_| {}).await;
    let rig = ready_rig(&array).await;
    node(&rig, "n", "10.0.0.1", Some("iqn.2026-01.x:n")).await;
    for (name, volume_type) in [("disk", "Block"), ("before", "NAS"), ("after", "NAS")] {
        rig.volume(name, "10Gi", json!({"volumeType": volume_type}))
            .await;
    }
    let disk = attach(&rig, "disk", "n", "ISCSI").await;
    let attached = is(&rig, &disk, "ISCSILoginPending").await;
    let before = attach(&rig, "before", "n", "NFS").await;
    is(&rig, &before, "Ready").await;

    rig.patch::<VscNode>("n", json!({"spec": {"NAS": {"IP": "10.0.0.2"}}}))
        .await;
    let after = attach(&rig, "after", "n", "NFS").await;
    let mut shares = Vec::new();
    for name in [&before, &after] {
        let ready = rig
            .until::<VolumeAttachment>(name, |it| {
                let server = &it["status"]["VPSAServerID"];
                it["status"]["state"] == "Ready" && *server != attached["status"]["VPSAServerID"]
            })
            .await;
        shares.push(ready["status"]["VPSAServerID"].clone());
    }
    assert_eq!(shares[0], shares[1], "one record for all shares");
    let still = rig.until::<VolumeAttachment>(&disk, |_| true).await;
    assert_eq!(
        still["status"]["VPSAServerID"], attached["status"]["VPSAServerID"],
        "nobody takes the disk away"
    );
    let addresses = servers(&array).await;
    let addresses: Vec<(&str, &str)> = addresses
        .iter()
        .map(|(_, ip, iqn)| (ip.as_str(), iqn.as_str()))
        .collect();
    assert_eq!(
        addresses,
        [("10.0.0.1", "iqn.2026-01.x:n"), ("10.0.0.2", "")]
    );

    // Each record goes with the last that needs it.
    for (name, left) in [(&before, 2), (&after, 1), (&disk, 0)] {
        rig.delete::<VolumeAttachment>(name).await;
        rig.until::<VolumeAttachment>(name, Value::is_null).await;
        assert_eq!(servers(&array).await.len(), left, "{name} is gone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_has_no_number_yet_is_not_taken_for_the_first() {
    let (array, _data) = array(|_| {}).await;
    let rig = Rig::with(|rig| rig.request_timeout = std::time::Duration::from_secs(3)).await;
    rig.class("gold", json!({})).await;
    rig.vpsa("one", "gold", &array).await;
    rig.vpsa_is("one", "Ready", "Ready").await;
    node(&rig, "n", "10.0.0.1", Some("iqn.2026-01.x:n")).await;
    for name in ["first", "second"] {
        rig.volume(name, "10Gi", json!({"volumeType": "Block"}))
            .await;
    }
    let first = attach(&rig, "first", "n", "ISCSI").await;
    is(&rig, &first, "ISCSILoginPending").await;
    let slow = array.control().turn(|knobs| {
        knobs.attachment_delay = 10_000;
        knobs.unfinished_attachments = true;
    });
    slow.await.unwrap();
    let second = attach(&rig, "second", "n", "ISCSI").await;
    let unnumbered = |it: &Value| {
        let message = it["status"]["conditions"][0]["message"].as_str();
        message.is_some_and(|it| it.contains("has not given it a number"))
    };
    let seen = rig.until::<VolumeAttachment>(&second, unnumbered).await;
    assert_eq!(seen["status"]["state"], "Attaching");
    assert!(seen["status"]["Block"].is_null(), "{seen}");
    let seen = is(&rig, &second, "ISCSILoginPending").await;
    assert_eq!(seen["status"]["Block"]["lun"], 1);
}
