//! What a process leaves that dies between any two steps, and what the next start makes of it.

use std::fs;
use std::path::PathBuf;

use stowage_host::filesystem::FsKind;
use stowage_host::loopdev::Loops;
use tempfile::TempDir;

use super::*;
use crate::id::Id;
use crate::state::{now_unix_ms, repair};
use crate::usage::Access;

fn store() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("state"), &"n1".parse().unwrap()).unwrap();
    (directory, store)
}

fn id(kind: Kind, name: &str) -> String {
    let (key, node) = (Key::of_name(name), "n1".parse().unwrap());
    Id { kind, key, node }.to_string()
}

fn group() -> GroupRecord {
    let created_unix_ms = now_unix_ms();
    let members = ["one", "two", "three"].map(|name| SnapshotRecord {
        id: id(Kind::Snapshot, name),
        name: name.to_owned(),
        source_volume: id(Kind::Volume, name),
        bytes: 4096,
        access: Access::Filesystem,
        filesystem: FsKind::Xfs,
        created_unix_ms,
        formatted: true,
        group: Some(id(Kind::Group, "group")),
    });
    GroupRecord {
        id: id(Kind::Group, "group"),
        name: "group".to_owned(),
        created_unix_ms,
        stage: GroupStage::Taken,
        members: members.into(),
    }
}

fn files(store: &Store) -> Vec<PathBuf> {
    let list = |area: &str| fs::read_dir(store.root().join(area)).unwrap();
    let all = ["snapshots", "groups"].into_iter().flat_map(list);
    all.map(|entry| entry.unwrap().path()).collect()
}

/// Makes the first images, then the group's record, then the first members' records.
fn take(store: &Store, images: usize, written: bool, records: usize) -> Vec<Image> {
    let group = group();
    let lock = store.lock_or_make(Area::Groups, &group.key()).unwrap();
    let mut made = Vec::new();
    for member in &group.members[..images] {
        let image = store.lock_or_make(Area::Snapshots, &member.key()).unwrap();
        image.lengthen(member.bytes).unwrap();
        made.push(image);
    }
    if written {
        store.write(&lock, &group).unwrap();
    }
    for (image, member) in made.iter().zip(&group.members[..records]) {
        store.write(image, member).unwrap();
    }
    made.push(lock);
    made
}

fn whole(store: &Store) -> bool {
    let members = group().members;
    let there = |member: &SnapshotRecord| {
        let read = store.read::<SnapshotRecord>(&member.key()).unwrap();
        read.is_some_and(|read| read.group.is_some())
            && store.is_whole(Area::Snapshots, &member.key(), member.bytes)
    };
    members.iter().all(there) && files(store).len() == 2 * members.len() + 2
}

#[test]
fn a_group_that_is_not_written_down_never_was() {
    for images in 0..=3 {
        let (_directory, store) = store();
        let held = take(&store, images, false, 0);
        repair(&store, &Loops::default()).unwrap();
        assert_eq!(files(&store).len(), images + 1, "its owner lives");
        drop(held);
        repair(&store, &Loops::default()).unwrap();
        assert_eq!(
            files(&store),
            Vec::<PathBuf>::new(),
            "after {images} images"
        );
    }
}

#[test]
fn a_group_that_is_written_down_is_whole_after_the_next_start() {
    for records in 0..=3 {
        let (_directory, store) = store();
        let held = take(&store, 3, true, records);
        repair(&store, &Loops::default()).unwrap();
        assert_eq!(files(&store).len(), 5 + records, "its owner lives");
        drop(held);
        for _ in 0..2 {
            repair(&store, &Loops::default()).unwrap();
            assert!(
                whole(&store),
                "after {records} records: {:?}",
                files(&store)
            );
        }
    }
}

#[test]
fn a_group_that_was_half_removed_is_gone_after_the_next_start() {
    for removed in 0..=3 {
        let (_directory, store) = store();
        drop(take(&store, 3, true, 3));
        let mut group = group();
        group.stage = GroupStage::Leaving;
        let lock = store.lock(Area::Groups, &group.key()).unwrap().unwrap();
        store.write(&lock, &group).unwrap();
        for member in &group.members[..removed] {
            let image = store.lock(Area::Snapshots, &member.key()).unwrap().unwrap();
            store.remove(Area::Snapshots, image).unwrap();
        }
        drop(lock);
        repair(&store, &Loops::default()).unwrap();
        assert_eq!(
            files(&store),
            Vec::<PathBuf>::new(),
            "after {removed} members"
        );
    }
}

#[test]
fn what_one_group_lost_does_not_keep_the_driver_from_starting() {
    let (_directory, store) = store();
    drop(take(&store, 3, true, 2));
    fs::remove_file(store.image_path(Area::Snapshots, &group().members[2].key())).unwrap();
    repair(&store, &Loops::default()).unwrap();
    let read = store.read::<GroupRecord>(&group().key()).unwrap().unwrap();
    let lock = store.lock(Area::Groups, &read.key()).unwrap().unwrap();
    store.remove_group(lock, read).unwrap();
    assert_eq!(
        files(&store),
        Vec::<PathBuf>::new(),
        "it can still be removed"
    );
}
