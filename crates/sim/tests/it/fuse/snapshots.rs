//! `.snapshots`.

use std::fs;

use serde_json::json;

use crate::fuse::rig::{Rig, errno, fill};

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_show_what_was_and_only_writable_ones_change() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let mount = rig.mount("default", "a").await;
    fs::write(mount.join("file"), "before").unwrap();
    let uid = rig.uid("default").await;
    for (name, writable) in [("kept", false), ("copy", true)] {
        let body =
            json!({ "fs_uid": uid, "name": name, "access_point": name, "is_writable": writable });
        rig.call("POST", "snapshots", Some(body)).await;
    }
    fs::write(mount.join("file"), "after").unwrap();
    let (kept, copy) = (mount.join(".snapshots/kept"), mount.join(".snapshots/copy"));
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "before");
    assert_eq!(errno(fs::write(kept.join("file"), "x")), Some(libc::EROFS));
    assert_eq!(errno(fs::create_dir(kept.join("dir"))), Some(libc::EROFS));
    assert_eq!(errno(fs::remove_file(kept.join("file"))), Some(libc::EROFS));
    assert_eq!(
        errno(fs::create_dir(mount.join(".snapshots/own"))),
        Some(libc::EROFS)
    );
    assert_eq!(
        errno(fs::remove_dir(mount.join(".snapshots"))),
        Some(libc::EPERM)
    );

    let moved = fs::rename(mount.join("file"), copy.join("moved"));
    assert_eq!(errno(moved), Some(libc::EXDEV));
    fs::write(copy.join("file"), "changed").unwrap();
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "before");
    assert_eq!(fs::read_to_string(mount.join("file")).unwrap(), "after");
    // What a snapshot shares with the filesystem is not paid for twice, so nothing is freed either.
    fs::remove_file(copy.join("file")).unwrap();
    let shown = rig.call("GET", &format!("fileSystems/{uid}"), None).await;
    assert_eq!(shown["used_total"], 4096);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_in_a_snapshot_holds_from_4_2_on_and_is_not_listed() {
    for (release, expected) in [("4.3", Some(libc::EDQUOT)), ("4.1", None)] {
        let mut rig = Rig::start(&["a"], |_| {}).await;
        let options = rig.try_mount("default", "").await;
        let mount = options.unwrap();
        let uid = rig.uid("default").await;
        let body = json!({ "fs_uid": uid, "name": "s", "access_point": "s", "is_writable": true });
        rig.call("POST", "snapshots", Some(body)).await;
        let inode = rig.inode("/.snapshots/s").await;
        rig.array.control().upgrade(release).await.unwrap();
        let quota = format!("fileSystems/{uid}/quota/{inode}");
        let limits = json!({ "hard_limit_bytes": 4096, "soft_limit_bytes": 4096 });
        rig.call("PUT", &quota, Some(limits)).await;
        let written = fs::write(mount.join(".snapshots/s/file"), vec![0; 8192]);
        assert_eq!(errno(written), expected, "{release}");
        let listed = rig
            .call("GET", &format!("fileSystems/{uid}/quota"), None)
            .await;
        assert_eq!(listed.as_array().unwrap().len(), 0);
        assert_eq!(rig.call("GET", &quota, None).await["snap_view_id"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_has_the_quotas_of_what_it_was_made_from() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let mount = rig.mount("default", "a").await;
    fs::create_dir(mount.join("volume")).unwrap();
    rig.limit("/volume", 8192, 8192).await;
    fill(&mount.join("volume/file"), 4096).unwrap();
    let uid = rig.uid("default").await;
    let kept = json!({ "fs_uid": uid, "name": "kept", "access_point": "kept" });
    let kept = rig.call("POST", "snapshots", Some(kept)).await;
    let copy = json!({
        "fs_uid": uid, "name": "copy", "access_point": "copy", "is_writable": true,
        "source_snap_uid": kept["uid"],
    });
    let copy = rig.call("POST", "snapshots", Some(copy)).await;
    let inode = rig.inode("/.snapshots/copy/volume").await;
    let quota = format!("fileSystems/{uid}/quota/{inode}");
    assert_eq!(rig.used(&quota).await, 4096);
    let place = mount.join(".snapshots/copy/volume");
    let full = fill(&place.join("more"), 8192);
    assert_eq!(errno(full), Some(libc::EDQUOT));
    // It was counted before, so it may be changed although files are in it; its original stays.
    rig.limit("/.snapshots/copy/volume", 1 << 20, 1 << 20).await;
    fill(&place.join("more"), 8192).unwrap();
    assert_eq!(
        errno(fill(&mount.join("volume/more"), 8192)),
        Some(libc::EDQUOT)
    );

    let path = format!("snapshots/{}", copy["uid"].as_str().unwrap());
    rig.call("DELETE", &path, None).await;
    let ledger = rig
        .directory
        .path()
        .join(format!("data/filesystems/{uid}/ledgers/{inode}"));
    while ledger.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_of_the_root_does_not_count_what_snapshots_hold() {
    let mut rig = Rig::start(&["a"], |_| {}).await;
    let mount = rig.mount("default", "a").await;
    rig.limit("/", 8192, 8192).await;
    let uid = rig.uid("default").await;
    let body = json!({ "fs_uid": uid, "name": "s", "access_point": "s", "is_writable": true });
    rig.call("POST", "snapshots", Some(body)).await;
    rig.limit("/.snapshots/s", 16384, 16384).await;
    fill(&mount.join(".snapshots/s/file"), 12288).unwrap();
    fill(&mount.join("file"), 8192).unwrap();
    assert_eq!(errno(fill(&mount.join("more"), 4096)), Some(libc::EDQUOT));
}
