use std::fs;
use std::path::PathBuf;

use stowage_host::filesystem::FsKind;
use stowage_host::loopdev::Loops;
use tempfile::TempDir;

use super::record::now_unix_ms;
use super::*;
use crate::id::{Id, Kind};
use crate::usage::Access;

fn store() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("state"), &"n1".parse().unwrap()).unwrap();
    (directory, store)
}

fn volume(name: &str) -> VolumeRecord {
    let id = Id {
        kind: Kind::Volume,
        key: Key::of_name(name),
        node: "n1".parse().unwrap(),
    };
    VolumeRecord {
        id: id.to_string(),
        name: name.to_owned(),
        bytes: 4096,
        access: Access::Filesystem,
        filesystem: FsKind::Xfs,
        source: Some(Source::Snapshot("snap".to_owned())),
        created_unix_ms: now_unix_ms(),
        formatted: true,
        direct_io: true,
        attached: [("n1".parse().unwrap(), Attachment { read_only: true })].into(),
    }
}

fn make(store: &Store, name: &str) -> VolumeRecord {
    let record = volume(name);
    let image = store
        .lock_or_make(Area::Volumes, &Key::of_name(name))
        .unwrap();
    image.lengthen(record.bytes).unwrap();
    store.write(&image, &record).unwrap();
    record
}

fn files(store: &Store) -> Vec<PathBuf> {
    let directory = fs::read_dir(store.root().join("volumes")).unwrap();
    directory.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_record_is_read_back_as_it_was_written() {
    let (_directory, store) = store();
    let record = make(&store, "pvc-1");
    let key = Key::of_name("pvc-1");
    assert_eq!(store.read(&key).unwrap(), Some(record));
    assert!(store.is_whole(Area::Volumes, &key, 4096));
    assert!(!store.is_whole(Area::Volumes, &key, 4097));

    let image = store.lock(Area::Volumes, &key).unwrap().unwrap();
    store.remove(Area::Volumes, image).unwrap();
    assert_eq!(store.read::<VolumeRecord>(&key).unwrap(), None);
    assert_eq!(files(&store), Vec::<PathBuf>::new());
}

/// A tool that is being started has a copy of every descriptor until it becomes itself.
#[test]
fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
    let (_directory, store) = store();
    make(&store, "a");
    let key = Key::of_name("a");
    let held = store.lock(Area::Volumes, &key).unwrap().unwrap();
    let copy = held.file().try_clone().unwrap();
    drop(held);
    assert!(store.lock(Area::Volumes, &key).unwrap().is_some());
    drop(copy);
}

#[test]
fn a_second_process_finds_the_image_locked() {
    let (_directory, store) = store();
    make(&store, "a");
    let key = Key::of_name("a");
    let held = store.lock(Area::Volumes, &key).unwrap().unwrap();
    assert!(matches!(
        store.lock(Area::Volumes, &key),
        Err(StateError::Locked { .. })
    ));
    drop(held);
    let readers = [(); 2].map(|()| store.lock_shared(Area::Volumes, &key).unwrap().unwrap());
    assert!(store.lock(Area::Volumes, &key).is_err());
    drop(readers);
    assert!(store.lock(Area::Volumes, &key).unwrap().is_some());
    assert!(
        store
            .lock(Area::Volumes, &Key::of_name("b"))
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_damaged_record_is_an_error_of_its_own_volume_only() {
    let (_directory, store) = store();
    for name in ["a", "b", "c", "d"] {
        make(&store, name);
    }
    let path = |name| store.record_path(Area::Volumes, &Key::of_name(name));
    fs::write(path("a"), "{\"version\": 1").unwrap();
    fs::copy(path("c"), path("b")).unwrap();
    let old = fs::read_to_string(path("d")).unwrap();
    fs::write(path("d"), old.replace("\"version\": 1", "\"version\": 2")).unwrap();
    for name in ["a", "b", "d"] {
        let read = store.read::<VolumeRecord>(&Key::of_name(name));
        assert!(matches!(read, Err(StateError::Damaged { .. })), "{name}");
    }
    assert!(store.read::<VolumeRecord>(&Key::of_name("c")).is_ok());
    let page = store.page::<VolumeRecord>(None, 0, |_| true).unwrap();
    let damaged = page.entries.iter().filter(|(_, read)| read.is_err());
    assert_eq!((page.entries.len(), damaged.count()), (4, 3));
    audit(&store).unwrap();
}

#[test]
fn a_page_token_stays_valid_while_volumes_come_and_go() {
    let (_directory, store) = store();
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        make(&store, name);
    }
    let page = |after: Option<&Key>, most| {
        let page = store.page::<VolumeRecord>(after, most, |_| true).unwrap();
        let keys: Vec<_> = page.entries.into_iter().map(|(key, _)| key).collect();
        (keys, page.next)
    };
    let (all, next) = page(None, 0);
    assert_eq!((all.len(), next), (5, None));
    assert!(all.is_sorted());

    let (first, next) = page(None, 2);
    assert_eq!(first, all[..2]);
    // The very entry that the token names is removed.
    let gone = next.unwrap();
    let image = store.lock(Area::Volumes, &gone).unwrap().unwrap();
    store.remove(Area::Volumes, image).unwrap();
    assert_eq!(page(Some(&gone), 0), (all[2..].to_vec(), None));
    assert_eq!(page(Some(&gone), 3), (all[2..].to_vec(), None));
}

#[test]
fn repair_removes_what_was_half_made_and_nothing_else() {
    let (_directory, store) = store();
    make(&store, "whole");
    // Died before the record was written.
    let half = store
        .lock_or_make(Area::Volumes, &Key::of_name("half"))
        .unwrap();
    half.lengthen(4096).unwrap();
    drop(half);
    // Died while the record was written.
    fs::write(store.root().join("volumes/.unfinished-1-2-3"), "x").unwrap();
    // Died while it was removed.
    make(&store, "removed");
    let image = store.lock(Area::Volumes, &Key::of_name("removed"));
    image.unwrap().unwrap().mark(Stage::Unfinished).unwrap();
    fs::remove_file(store.record_path(Area::Volumes, &Key::of_name("removed"))).unwrap();
    // Just being made by somebody who lives.
    let living = store
        .lock_or_make(Area::Volumes, &Key::of_name("living"))
        .unwrap();
    // Somebody took the record away.
    make(&store, "orphan");
    fs::remove_file(store.record_path(Area::Volumes, &Key::of_name("orphan"))).unwrap();

    for _ in 0..2 {
        repair(&store, &Loops::default()).unwrap();
        let mut left: Vec<_> = files(&store);
        left.sort();
        let mut expected = vec![
            store.record_path(Area::Volumes, &Key::of_name("whole")),
            store.image_path(Area::Volumes, &Key::of_name("whole")),
            living.path().to_owned(),
            store.image_path(Area::Volumes, &Key::of_name("orphan")),
        ];
        expected.sort();
        assert_eq!(left, expected);
    }
}

#[test]
fn a_state_directory_that_cannot_be_written_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file, &"n1".parse().unwrap()).unwrap_err();
    let text = crate::error::chain(&error);
    assert!(
        text.contains("/file/volumes") && text.contains("Not a directory"),
        "{text}"
    );
}

#[test]
fn a_volume_is_staged_elsewhere_until_the_other_node_or_the_machine_ends_it() {
    let (_directory, store) = store();
    let [key, other] = ["pvc-1", "pvc-2"].map(Key::of_name);
    let [here, there]: [NodeId; 2] = ["n1", "n2.example"].map(|node| node.parse().unwrap());
    let elsewhere = || store.staged_elsewhere(&key, &here).unwrap();
    store.note_staged(&key, &here).unwrap();
    store.note_staged(&other, &there).unwrap();
    assert!(
        !elsewhere(),
        "its own note and another volume's do not count"
    );
    for _ in 0..2 {
        store.note_staged(&key, &there).unwrap();
        assert!(elsewhere());
    }
    for _ in 0..2 {
        store.note_unstaged(&key, &there).unwrap();
        assert!(!elsewhere());
    }
    store.note_staged(&key, &there).unwrap();
    let note = store.root().join(format!("staged/{key}.{there}"));
    fs::write(note, "an earlier run").unwrap();
    assert!(!elsewhere());
    store.forget_staged(&key).unwrap();
    assert_eq!(
        fs::read_dir(store.root().join("staged")).unwrap().count(),
        1
    );
}

#[test]
fn a_record_follows_an_image_that_became_longer() {
    let (_directory, store) = store();
    let record = make(&store, "pvc-1");
    let key = Key::of_name("pvc-1");
    let image = store.lock(Area::Volumes, &key).unwrap().unwrap();
    image.lengthen(8192).unwrap();
    let (settled, written) = store.settle_size(&image, record);
    assert_eq!((settled.bytes, written), (8192, true));
    assert_eq!(store.read(&key).unwrap(), Some(settled.clone()));
    let (settled, written) = store.settle_size(&image, settled);
    assert_eq!((settled.bytes, written), (8192, false));
    image.lengthen(4096).unwrap();
    assert_eq!(image.bytes().unwrap(), 8192, "it never becomes shorter");
}

#[test]
fn records_are_read_by_drivers_that_know_fewer_fields_or_more() {
    let (_directory, store) = store();
    make(&store, "pvc-1");
    let key = Key::of_name("pvc-1");
    let path = store.record_path(Area::Volumes, &key);
    let mut written: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let fields = written.as_object_mut().unwrap();
    assert_eq!(fields.remove("formatted"), Some(true.into()));
    fields.insert("later".to_owned(), "unknown".into());
    fs::write(&path, written.to_string()).unwrap();
    let read: VolumeRecord = store.read(&key).unwrap().unwrap();
    assert!(!read.formatted);
}
