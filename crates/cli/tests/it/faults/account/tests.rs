//! Each thing that can be wrong is found.

use std::collections::{BTreeMap, BTreeSet};

use stowage_api::snapshot::names;

use super::*;

/// One claim, bound and attached, with a snapshot, and everything as it should be.
fn all_is_well() -> (Expected, Picture, Storage) {
    let wanted = ClaimExpected {
        node: Some("node".to_owned()),
        size: 2,
        restored: false,
    };
    let expected = Expected {
        claims: BTreeMap::from([("a".to_owned(), wanted)]),
        snapshots: BTreeSet::from(["s".to_owned()]),
    };
    let claim = ClaimSeen {
        bound_to: Some("pvc-1".to_owned()),
        size: 2,
        ..ClaimSeen::default()
    };
    let volume = VolumeSeen {
        handle: "h".to_owned(),
        claim: "a".to_owned(),
        size: 2,
        ..VolumeSeen::default()
    };
    let attachment = AttachmentSeen {
        volume: "pvc-1".to_owned(),
        node: "node".to_owned(),
        attached: true,
        ..AttachmentSeen::default()
    };
    let snapshot = SnapshotSeen {
        uid: "u".to_owned(),
        content: Some("c".to_owned()),
        ready: true,
        ..SnapshotSeen::default()
    };
    let content = ContentSeen {
        owner_uid: "u".to_owned(),
        handle: Some("snap".to_owned()),
        ready: true,
        ..ContentSeen::default()
    };
    let kept = VolumeKept {
        name: "pvc-1".to_owned(),
        size: 2,
        restored: false,
    };
    let seen = Picture {
        snapshots: BTreeMap::from([("s".to_owned(), snapshot)]),
        contents: BTreeMap::from([("c".to_owned(), content)]),
        claims: BTreeMap::from([("a".to_owned(), claim)]),
        volumes: BTreeMap::from([("pvc-1".to_owned(), volume)]),
        attachments: BTreeMap::from([("at".to_owned(), attachment)]),
    };
    let storage = Storage {
        volumes: BTreeMap::from([("h".to_owned(), kept)]),
        snapshots: BTreeMap::from([("snap".to_owned(), "snapshot-u".to_owned())]),
        deleted_snapshots: vec!["snapshot-other".to_owned()],
        publications: BTreeSet::from([("h".to_owned(), "node".to_owned())]),
    };
    (expected, seen, storage)
}

type Change = fn(&mut Expected, &mut Picture, &mut Storage);

/// Each change of what is well is found, under these words.
fn each_is_named(changes: &[(&str, Change)]) {
    let (expected, seen, storage) = all_is_well();
    assert_eq!(wrong(&expected, &seen, &storage), []);
    for (text, change) in changes {
        let (mut expected, mut seen, mut storage) = all_is_well();
        change(&mut expected, &mut seen, &mut storage);
        let found = wrong(&expected, &seen, &storage);
        assert!(
            found.iter().any(|one| one.what.contains(text)),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn whatever_differs_is_named() {
    each_is_named(&[
        ("claim a is gone", |_, seen, _| seen.claims.clear()),
        ("is not bound", |_, seen, _| {
            seen.claims.get_mut("a").unwrap().bound_to = None;
        }),
        ("claim a () should be gone", |_, seen, _| {
            seen.claims.get_mut("a").unwrap().deleting = true;
        }),
        ("claim a () should be gone; nobody", |expected, _, _| {
            expected.claims.clear();
        }),
        (
            "PersistentVolume pvc-1 of claim a should be gone",
            |_, seen, _| {
                seen.volumes.get_mut("pvc-1").unwrap().deleting = true;
            },
        ),
        ("has no volume on the driver", |_, _, storage| {
            storage.volumes.clear();
        }),
        ("volume `h` (pvc-1) is lost", |_, seen, _| {
            seen.volumes.clear();
        }),
        (
            "VolumeAttachment at of claim `a` is not attached",
            |_, seen, _| {
                seen.attachments.get_mut("at").unwrap().attached = false;
            },
        ),
        (
            "VolumeAttachment at of claim `a` should be gone",
            |_, seen, _| {
                seen.attachments.get_mut("at").unwrap().deleting = true;
            },
        ),
        ("claim a has no VolumeAttachment to node", |_, seen, _| {
            seen.attachments.clear();
        }),
        ("the driver does not publish it", |_, _, storage| {
            storage.publications.clear();
        }),
    ]);
}

#[test]
fn whatever_differs_in_sizes_and_snapshots_is_named() {
    each_is_named(&[
        ("its status says 1", |_, seen, _| {
            seen.claims.get_mut("a").unwrap().size = 1;
        }),
        ("its PersistentVolume says 1", |_, seen, _| {
            seen.volumes.get_mut("pvc-1").unwrap().size = 1;
        }),
        ("the driver's volume has 1", |_, _, storage| {
            storage.volumes.get_mut("h").unwrap().size = 1;
        }),
        ("it still has the condition Resizing", |_, seen, _| {
            let claim = seen.claims.get_mut("a").unwrap();
            claim.conditions.push("Resizing".to_owned());
        }),
        ("made from a snapshot: false", |expected, _, _| {
            expected.claims.get_mut("a").unwrap().restored = true;
        }),
        ("claim a is still kept by", |_, seen, _| {
            let claim = seen.claims.get_mut("a").unwrap();
            claim.finalizers.push(names::CLAIM_AS_SOURCE.to_owned());
        }),
        ("VolumeSnapshot s is gone", |_, seen, _| {
            seen.snapshots.clear();
        }),
        ("VolumeSnapshot s (u) should be gone", |expected, _, _| {
            expected.snapshots.clear();
        }),
        ("VolumeSnapshot s (u) is not ready", |_, seen, _| {
            seen.snapshots.get_mut("s").unwrap().ready = false;
        }),
        ("is ready and has an error: busy", |_, seen, _| {
            seen.snapshots.get_mut("s").unwrap().error = Some("busy".to_owned());
        }),
        ("is ready and has no content", |_, seen, _| {
            seen.contents.clear();
        }),
        ("VolumeSnapshotContent c should be gone", |_, seen, _| {
            seen.contents.get_mut("c").unwrap().deleting = true;
        }),
        ("VolumeSnapshotContent d should be gone", |_, seen, _| {
            let second = seen.contents["c"].clone();
            seen.contents.insert("d".to_owned(), second);
        }),
        ("VolumeSnapshotContent c is still marked", |_, seen, _| {
            let content = seen.contents.get_mut("c").unwrap();
            content.marks.push(names::SNAPSHOT.being_created.to_owned());
        }),
        ("snapshot `more` (x) is lost", |_, _, storage| {
            storage.snapshots.insert("more".to_owned(), "x".to_owned());
        }),
        ("`snapshot-u` was taken twice", |_, _, storage| {
            storage.deleted_snapshots.push("snapshot-u".to_owned());
        }),
    ]);
}
