//! Shares, mounted by the stand-in for `mount.nfs`: who may, and for how long. Needs root and /dev/fuse.

use serde_json::json;
use stowage_sim::vpsa::host::tools::MountError;

use crate::vpsa::node::{Node, blocking, reads};
use crate::vpsa::rig::Rig;

/// The volume, and where it is exported.
async fn share(rig: &Rig, name: &str) -> (String, String) {
    let id = rig.volume(name, "NO", 1).await;
    let volume = rig.get(&format!("volumes/{id}")).await;
    let path = volume.fields()["volume"]["nfs_export_path"].as_str();
    (id, path.unwrap().to_owned())
}

#[tokio::test]
async fn a_share_is_mounted_by_nodes_that_it_is_attached_to_and_holds_what_they_write() {
    let rig = Rig::with_data().await;
    let (mut a, mut b) = (Node::start("a"), Node::start("b"));
    let (volume, source) = share(&rig, "share").await;
    let refused = a.try_mount(&source, "nfsvers=4").await.unwrap_err();
    let MountError::Refused(reason) = refused else {
        panic!("{refused}");
    };
    assert!(reason.contains("access denied by server"), "{reason}");
    for (name, node) in [("a", &a), ("b", &b)] {
        let server = rig.server(name, &node.ip.to_string()).await;
        rig.attach(&server, &volume, json!({"access_type": "NFS"}))
            .await;
    }
    let (at_a, at_b) = (a.mount(&source, "rw").await, b.mount(&source, "rw").await);
    let file = at_a.join("file");
    blocking(move || std::fs::write(file, "from a"))
        .await
        .unwrap();
    reads(&at_b.join("file"), Ok("from a")).await;
    let missing = source.replace("share", "other");
    assert!(a.try_mount(&missing, "rw").await.is_err());
}

#[tokio::test]
async fn permission_that_is_taken_back_ends_in_stale_handles_until_it_is_given_again() {
    let rig = Rig::with_data().await;
    let mut node = Node::start("node");
    let (volume, source) = share(&rig, "share").await;
    let server = rig.server("node", &node.ip.to_string()).await;
    rig.attach(&server, &volume, json!({"access_type": "NFS"}))
        .await;
    let mounted = node.mount(&source, "soft").await;
    let file = mounted.join("file");
    let path = file.clone();
    blocking(move || std::fs::write(path, "text"))
        .await
        .unwrap();
    rig.detach(&server, &volume).await;
    reads(&file, Err(libc::ESTALE)).await;
    rig.attach(&server, &volume, json!({"access_type": "NFS"}))
        .await;
    reads(&file, Ok("text")).await;
    rig.array.control().set_data(false).await.unwrap();
    reads(&file, Err(libc::EIO)).await;
    rig.array.control().set_data(true).await.unwrap();
    reads(&file, Ok("text")).await;
}

#[tokio::test]
async fn a_share_that_is_attached_for_reading_cannot_be_written() {
    let rig = Rig::with_data().await;
    let mut node = Node::start("node");
    let (volume, source) = share(&rig, "share").await;
    let server = rig.server("node", &node.ip.to_string()).await;
    let how = json!({"access_type": "NFS", "readonly": "YES"});
    rig.attach(&server, &volume, how).await;
    let mounted = node.mount(&source, "rw").await;
    let written = blocking(move || std::fs::write(mounted.join("file"), "text")).await;
    assert_eq!(written.unwrap_err().raw_os_error(), Some(libc::EROFS));
}
