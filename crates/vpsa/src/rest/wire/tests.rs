//! Objects as the fact sheet shows them, in every spelling that was seen.

use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stowage_api::vpsa::CapacityMode;

use super::*;

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_volume_is_read_with_numbers_as_texts_and_servers_between_commas() {
    let volume: Volume = read(json!({
        "name": "volume-00000001", "display_name": "pvc-1", "cg_name": "cg-00000001", "pool_name": "pool-00010003",
        "status": "In-use", "virtual_capacity": "50", "data_type": "File-System", "encryption": "YES",
        "server_name": "one,two", "server_ext_names": "srv-00000001, srv-00000002,", "has_snapshots": "YES",
        "nfs_export_path": "10.10.10.10:/export/pvc-1", "created_at": "2013-09-26 00:42:30 UTC", "tenant_id": 7,
    }));
    assert_eq!(volume.virtual_capacity, 50);
    assert_eq!(volume.data_type, DataType::FileSystem);
    let servers: Vec<_> = volume.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["srv-00000001", "srv-00000002"]);
    assert!(volume.is_usable() && volume.has_snapshots && volume.encryption);
    assert_eq!(volume.created_at.unwrap().as_second(), 1_380_156_150);
}

#[test]
fn a_volume_that_is_being_made_has_no_more_than_an_identity() {
    let volume: Volume = read(
        json!({"name": "volume-00000002", "status": "Creating", "cg_name": null, "lun": null}),
    );
    assert_eq!(
        (volume.cg.clone(), volume.data_type),
        (None, DataType::Unknown)
    );
    assert!(!volume.is_usable() && volume.servers.is_empty());
    assert!(serde_json::from_value::<Volume>(json!({"name": "../pools"})).is_err());
    let elsewhere = json!({"name": "volume-1", "server_ext_names": "srv-1,../x"});
    assert!(serde_json::from_value::<Volume>(elsewhere).is_err());
}

#[test]
fn a_disk_without_a_number_or_a_target_is_not_the_first_disk() {
    for (lun, target, expected) in [
        (json!(0), "iqn.y", Some(0)),
        (json!("7"), "iqn.y", Some(7)),
        (json!(0), "", None),
        (json!(null), "iqn.y", None),
        (json!(""), "iqn.y", None),
        (json!("N/A"), "iqn.y", None),
        (json!(-1), "iqn.y", None),
    ] {
        let fields = json!({"name": "srv-00000001", "lun": lun, "target": target});
        let attached: AttachedServer = read(fields);
        assert_eq!(
            attached.disk().map(|(_, lun)| lun),
            expected,
            "{lun} {target}"
        );
    }
    let bare: AttachedServer = read(json!({"name": "srv-00000001", "target": "iqn.y"}));
    assert_eq!(bare.disk(), None);
}

#[test]
fn chap_secrets_are_read_and_not_shown() {
    let fields = json!({
        "name": "srv-00000001", "display_name": "node", "iqn": "iqn.x", "iscsi_ip": "10.0.0.7", "lun": "3",
        "target": "iqn.y", "read_only": "NO", "access_type": "iSCSI", "vpsa_chap_user": "u", "vpsa_chap_secret": "very-secret",
        "state": "active", "iscsi_ipv6": "", "software_ver": "22.06-1",
    });
    let attached: AttachedServer = read(fields.clone());
    assert_eq!(attached.disk(), Some(("iqn.y", 3)));
    assert!(!attached.read_only);
    assert_eq!(
        attached.server.vpsa_chap_secret.expose_secret(),
        "very-secret"
    );
    let controller: VController = read(fields);
    assert_eq!(controller.data_address(), Some("10.0.0.7"));
    for shown in [format!("{attached:?}"), format!("{controller:?}")] {
        assert!(!shown.contains("very-secret"), "{shown}");
    }
}

#[test]
fn an_active_controller_prefers_ipv6() {
    let controller: VController =
        read(json!({"state": "Active", "iscsi_ip": "10.0.0.1", "iscsi_ipv6": "fd00::1"}));
    assert!(controller.is_active());
    assert_eq!(controller.data_address(), Some("fd00::1"));
    let controller: VController = read(json!({"state": "standby", "iscsi_ip": "10.0.0.1"}));
    assert!(!controller.is_active());
    assert_eq!(controller.data_address(), Some("10.0.0.1"));
}

#[test]
fn how_full_a_pool_is_is_found_wherever_it_is_said() {
    let pool = |more: Value| -> Pool {
        let mut fields = json!({"name": "pool-1", "capacity": "100", "available_capacity": "40.5"});
        fields
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        read(fields)
    };
    for (more, mode) in [
        (json!({}), CapacityMode::Normal),
        (json!({"status": "Normal"}), CapacityMode::Normal),
        (json!({"mode": "Alert"}), CapacityMode::Alert),
        (json!({"status": "Protected"}), CapacityMode::Protected),
        (
            json!({"capacity_state": "in emergency mode"}),
            CapacityMode::Emergency,
        ),
        (json!({"mode": 7, "status": "Normal"}), CapacityMode::Normal),
        (json!({"available_capacity": 0}), CapacityMode::Protected),
        (
            json!({"available_capacity": 0, "mode": "emergency"}),
            CapacityMode::Emergency,
        ),
    ] {
        assert_eq!(pool(more.clone()).capacity_mode(), mode, "{more}");
    }
    assert!((pool(json!({})).available_capacity - 40.5).abs() < 1e-9);
    assert_eq!(pool(json!({"status": "Alert"})).health(), Health::Healthy);
    assert_eq!(pool(json!({"status": "Faulty"})).health(), Health::Failed);
}

#[test]
fn health_is_told_from_the_words_of_a_status() {
    for (status, health) in [
        ("Normal", Health::Healthy),
        ("", Health::Healthy),
        ("Degraded", Health::Degraded),
        ("Rebuilding 40%", Health::Degraded),
        ("Failed", Health::Failed),
        ("OFFLINE", Health::Failed),
    ] {
        let drive: Drive = read(json!({"name": "d", "status": status}));
        assert_eq!(drive.health(), health, "{status}");
    }
}
