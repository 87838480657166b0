//! The driver is away, or an array is: I/O goes on, and what is deleted meanwhile waits.

use std::collections::BTreeMap;

use devcluster::testing::Namespace;
use devcluster::vpsa_sim::ARRAYS;
use serde_json::json;
use stowage_tests::copies::written;
use stowage_tests::{cluster, eventually};

use super::vpsa_arrays::{OnArray, Vpsas};

/// A Volume that a person wrote, and its Snapshot.
const BY_HAND: &str = "by-hand";

/// The kinds that tell of storage.
const KINDS: [&str; 6] = [
    "vpsa",
    "vscstorageclass",
    "vscnode",
    "volume",
    "volumeattachment",
    "snapshot",
];

/// Makes a volume with a snapshot by hand; the array it is on.
fn make_by_hand(vpsas: &Vpsas) -> String {
    let object = |kind: &str, spec| json!({"apiVersion": "storage.zadara.com/v1", "kind": kind, "metadata": {"name": BY_HAND}, "spec": spec});
    let volume = json!({"VSCStorageClassName": "gold", "displayName": BY_HAND, "size": "1Gi", "volumeType": "NAS"});
    cluster()
        .apply(&object("Volume", volume).to_string())
        .unwrap();
    let place = vpsas.place(BY_HAND);
    let snapshot = json!({"displayName": BY_HAND, "volumeID": BY_HAND});
    cluster()
        .apply(&object("Snapshot", snapshot).to_string())
        .unwrap();
    vpsas.in_state("snapshot", BY_HAND, "Ready");
    place
}

/// Deletes both, and the array that they are on.
fn delete_by_hand(vpsas: &Vpsas, array: &str) {
    for (kind, name) in [("snapshot", BY_HAND), ("volume", BY_HAND), ("vpsa", array)] {
        let kind = format!("{kind}.storage.zadara.com");
        vpsas.kubectl(&["delete", &kind, name, "--wait=false"]);
    }
}

/// Whether both are gone.
fn is_gone(vpsas: &Vpsas) -> bool {
    ["volume", "snapshot"].iter().all(|kind| {
        let by_hand = format!("{kind}.storage.zadara.com/{BY_HAND}");
        !vpsas.names(kind).contains(&by_hand)
    })
}

/// The arrays have so much less than before.
fn less(before: [OnArray; 2], array: &str) -> [OnArray; 2] {
    let mut after = before;
    for (name, on_array) in ARRAYS.iter().zip(&mut after) {
        if *name == array {
            on_array.volumes -= 1;
            on_array.snapshots -= 1;
        }
    }
    after
}

pub fn pods_do_not_notice_that_the_driver_is_away(vpsas: &Vpsas, namespace: &Namespace) {
    // Disks of pods that are done are detached by and by: the writer's and those of the set stay.
    eventually("only what is used is attached", || {
        (vpsas.names("volumeattachment").len() == 3).then_some(())
    });
    let place = make_by_hand(vpsas);
    let (arrays, requests) = (vpsas.on_arrays(), vpsas.requests());
    let objects = KINDS.map(|kind| vpsas.names(kind));
    vpsas.uninstall();
    // What is deleted meanwhile waits for the driver; the array itself for everything that is on it.
    delete_by_hand(vpsas, &place);
    let before = written(namespace, "writer");
    eventually("the pod writes without the driver", || {
        (written(namespace, "writer") > before + 10).then_some(())
    });
    vpsas.kubectl(&["get", "secret", "csi-vpsa-keys"]);
    assert_eq!(KINDS.map(|kind| vpsas.names(kind)), objects);
    assert_eq!(vpsas.on_arrays(), arrays);
    vpsas.install();
    eventually("what was deleted meanwhile goes", || {
        is_gone(vpsas).then_some(())
    });
    for array in ARRAYS {
        let state = if array == place { "Deleting" } else { "Ready" };
        vpsas.in_state("vpsa", array, state);
    }
    everything_is_ready_and_nothing_else_changed(vpsas, &requests);
    let by_hand = format!(".storage.zadara.com/{BY_HAND}");
    let objects = objects.map(|mut names| {
        names.retain(|name| !name.ends_with(&by_hand));
        names
    });
    assert_eq!(KINDS.map(|kind| vpsas.names(kind)), objects);
    assert_eq!(vpsas.on_arrays(), less(arrays, &place));
    let before = written(namespace, "writer");
    eventually("the pod writes on", || {
        (written(namespace, "writer") > before + 10).then_some(())
    });
}

/// The driver has looked at everything, says that it is as it should be, and has asked for nothing but what was deleted.
fn everything_is_ready_and_nothing_else_changed(vpsas: &Vpsas, before: &BTreeMap<String, u64>) {
    let more = |kind: &str, now: u64| now - before.get(kind).copied().unwrap_or(0);
    for (kind, request) in [
        ("volume", "GET volumes/*"),
        ("volumeattachment", "GET volumes/*/servers"),
    ] {
        let names = vpsas.names(kind);
        eventually(&format!("the arrays are asked about every {kind}"), || {
            let asked = more(request, vpsas.requests()[request]);
            (asked >= names.len() as u64).then_some(())
        });
        for name in names {
            let name = name.rsplit('/').next().unwrap();
            vpsas.in_state(kind, name, "Ready");
        }
    }
    let mut changes: Vec<(String, u64)> = Vec::new();
    for (kind, now) in vpsas.requests() {
        let more = more(&kind, now);
        if more > 0 && !kind.starts_with("GET") {
            changes.push((kind, more));
        }
    }
    let deleted = [
        "DELETE snapshots/*",
        "DELETE volumes/*",
        "DELETE volumes/*/delete_volume_from_recycle_bin",
    ];
    assert_eq!(changes, deleted.map(|kind| (kind.to_owned(), 1)));
}

pub fn what_is_deleted_while_its_array_is_away_waits_for_it(vpsas: &Vpsas) {
    let before = vpsas.on_arrays();
    // One array is to go already: it is on the other.
    let place = make_by_hand(vpsas);
    let with = vpsas.on_arrays();
    vpsas.control_of(&place, "create", "endpoints/0/stop", &json!(null));
    delete_by_hand(vpsas, &place);
    let said = vpsas.wait_for_event(BY_HAND, "ArrayFailed");
    assert!(said.contains("does not answer"), "{said}");
    assert_eq!(vpsas.on_arrays(), with);
    assert!(!is_gone(vpsas));
    vpsas.control_of(&place, "create", "endpoints/0/start", &json!(null));
    eventually("what was deleted meanwhile goes", || {
        is_gone(vpsas).then_some(())
    });
    assert_eq!(vpsas.on_arrays(), before);
}
