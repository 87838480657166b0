//! What the kubelet sees through restarts, removals and refusals.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use stowage_csi::endpoint::Endpoint;
use stowage_csi::server::Socket;
use stowage_stage::until;

use crate::node::driver::{TestDriver, log};
use crate::node::kubelet::{HOST_SOCKET, Kubelet, Node};

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|found| found.ino())
}

/// An inode is used again at once.
fn inode_and_time(path: &Path) -> Option<(u64, i64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.ctime_nsec()))
}

#[tokio::test]
async fn the_kubelet_gets_to_know_the_driver_and_its_verdict_is_shown() {
    let node = Node::new();
    let _driver = TestDriver::named("x.csi").start(&node.driver);
    let sidecar = node.start(&["--driver-name=x.csi"]);
    let mut kubelet = node.kubelet("x.csi").await;
    assert!(sidecar.shows("registration: the kubelet has not asked yet"));

    let info = kubelet.asks().await;
    assert_eq!(info.r#type, "CSIPlugin");
    assert_eq!(info.name, "x.csi");
    assert_eq!(info.endpoint, HOST_SOCKET);
    assert_eq!(info.supported_versions, ["1.0.0"]);

    kubelet.refuses("topology label conflict").await;
    until("the refusal is shown", || {
        sidecar.shows("the kubelet refused the driver: topology label conflict")
    })
    .await;
    // It thinks better of it, at the same socket.
    assert_eq!(kubelet.asks().await.name, "x.csi");
    kubelet.registers().await;
    until("the process is ready", || {
        sidecar.health.report().is_ready()
    })
    .await;
    sidecar.stop().await;
}

/// A kubelet does not ask a socket again that it has refused: only another file makes it look.
#[tokio::test]
async fn a_driver_that_was_refused_is_offered_again_until_it_is_registered() {
    let node = Node::new();
    let _driver = TestDriver::named("x.csi").start(&node.driver);
    let sidecar = node.start(&[]);
    let socket = node.registration_socket("x.csi");
    for _ in 0..2 {
        let mut kubelet = node.kubelet("x.csi").await;
        kubelet.asks().await;
        let before = inode_and_time(&socket);
        kubelet.refuses("topology label conflict").await;
        until("another file is there", || {
            inode_and_time(&socket).is_some_and(|now| Some(now) != before)
        })
        .await;
        until("the reason is still shown", || {
            sidecar.shows("the kubelet refused the driver: topology label conflict")
        })
        .await;
    }
    let mut kubelet = node.kubelet("x.csi").await;
    kubelet.registers().await;
    until("ready", || sidecar.health.report().is_ready()).await;
    let registered = inode_and_time(&socket);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(inode_and_time(&socket), registered, "it is left alone now");
    sidecar.stop().await;
}

#[tokio::test]
async fn stopping_takes_the_driver_off_the_node_though_the_kubelet_is_connected() {
    let node = Node::new();
    let _driver = TestDriver::named("x.csi").start(&node.driver);
    let sidecar = node.start(&[]);
    let mut kubelet = node.kubelet("x.csi").await;
    kubelet.asks().await;
    sidecar.stop().await;
    assert!(!node.registration_socket("x.csi").exists());
}

#[tokio::test]
async fn nothing_is_registered_until_the_driver_is_there() {
    let node = Node::new();
    let sidecar = node.start(&[]);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(sidecar.shows("[-] driver: its socket: No such file"));
    assert_eq!(
        fs::read_dir(node.folder.path().join("registration"))
            .unwrap()
            .count(),
        0
    );

    let _driver = TestDriver::named("late.csi").start(&node.driver);
    assert_eq!(node.kubelet("late.csi").await.asks().await.name, "late.csi");
    sidecar.stop().await;
}

#[tokio::test]
async fn another_driver_than_expected_is_not_registered() {
    let node = Node::new();
    let _driver = TestDriver::named("other.csi").start(&node.driver);
    let error = node
        .start(&["--driver-name=mine.csi"])
        .ended()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`mine.csi`") && error.contains("`other.csi`"),
        "{error}"
    );
    assert_eq!(
        fs::read_dir(node.folder.path().join("registration"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn a_driver_that_restarts_stays_registered() {
    let node = Node::new();
    let driver = TestDriver::named("x.csi").start(&node.driver);
    let sidecar = node.start(&[]);
    let mut kubelet = node.kubelet("x.csi").await;
    kubelet.registers().await;
    let socket = node.registration_socket("x.csi");
    let before = inode(&socket);

    driver.kill();
    until("the loss is shown", || sidecar.shows("driver: its ")).await;
    let _driver = TestDriver::named("x.csi").start(&node.driver);
    until("the driver is back", || sidecar.health.report().is_ready()).await;
    assert_eq!(inode(&socket), before, "the kubelet has nothing to notice");
    assert_eq!(kubelet.asks().await.name, "x.csi");
    sidecar.stop().await;
}

#[tokio::test]
async fn a_driver_that_comes_back_under_another_name_is_taken_off_the_node() {
    let node = Node::new();
    let driver = TestDriver::named("x.csi").start(&node.driver);
    let sidecar = node.start(&[]);
    node.kubelet("x.csi").await.registers().await;

    driver.kill();
    let _driver = TestDriver::named("y.csi").start(&node.driver);
    let error = sidecar.ended().await.unwrap_err().to_string();
    assert!(error.contains("was `x.csi` and is `y.csi` now"), "{error}");
    assert!(!node.registration_socket("x.csi").exists());
    assert!(!node.registration_socket("y.csi").exists());
}

/// Some kubelets empty their folder when they start.
#[tokio::test]
async fn a_removed_socket_comes_back() {
    let node = Node::new();
    let _driver = TestDriver::named("x.csi").start(&node.driver);
    let sidecar = node.start(&[]);
    let socket = node.registration_socket("x.csi");
    for _ in 0..2 {
        node.kubelet("x.csi").await.registers().await;
        until("ready", || sidecar.health.report().is_ready()).await;
        fs::remove_file(&socket).unwrap();
        until("the socket is back", || socket.exists()).await;
    }
    let mut kubelet = node.kubelet("x.csi").await;
    assert_eq!(kubelet.asks().await.name, "x.csi");
    until("a new question is awaited", || {
        sidecar.shows("has not asked yet")
    })
    .await;
    sidecar.stop().await;
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_dead_socket_in_its_place_is_replaced() {
    let node = Node::new();
    let _driver = TestDriver::named("x.csi").start(&node.driver);
    let sidecar = node.start(&[]);
    let socket = node.registration_socket("x.csi");
    node.kubelet("x.csi").await;
    fs::remove_file(&socket).unwrap();
    drop(UnixListener::bind(&socket).unwrap());
    let dead = fs::symlink_metadata(&socket).unwrap().ctime_nsec();

    until("another file is there", || {
        fs::symlink_metadata(&socket).is_ok_and(|found| found.ctime_nsec() != dead)
    })
    .await;
    assert_eq!(node.kubelet("x.csi").await.asks().await.name, "x.csi");
    sidecar.stop().await;
}

/// The new pod of a rolling update: two that replace each other would never end.
#[tokio::test]
async fn a_live_socket_of_another_process_is_left_alone_until_it_goes() {
    let node = Node::new();
    let _driver = TestDriver::named("x.csi").start(&node.driver);
    let old = node.start(&[]);
    let socket = node.registration_socket("x.csi");
    node.kubelet("x.csi").await;
    let first = inode(&socket);
    let new = node.start(&[]);
    until("the new one took over", || inode(&socket) != first).await;
    let second = inode(&socket);

    until("the old one says so", || {
        old.shows("another process serves `")
    })
    .await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(inode(&socket), second);
    assert_eq!(
        log().lines(
            node.folder.path(),
            "Waiting to put the registration socket back"
        ),
        1
    );
    assert!(!new.shows("another process"));

    new.stop().await;
    assert_eq!(node.kubelet("x.csi").await.asks().await.name, "x.csi");
    old.stop().await;
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_not_destroyed() {
    let node = Node::new();
    let _driver = TestDriver::named("x.csi").start(&node.driver);
    let socket = node.registration_socket("x.csi");
    fs::write(&socket, "precious").unwrap();
    let error = node.start(&[]).ended().await.unwrap_err();
    let error = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    assert!(error.contains("exists and is not a socket"), "{error}");

    fs::remove_file(&socket).unwrap();
    let sidecar = node.start(&[]);
    node.kubelet("x.csi").await;
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "precious").unwrap();
    until("the file is named", || {
        sidecar.shows("exists and is not a socket")
    })
    .await;
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
    fs::remove_file(&socket).unwrap();
    until("the socket is back", || {
        fs::symlink_metadata(&socket).is_ok_and(|found| found.file_type().is_socket())
    })
    .await;
    sidecar.stop().await;
}

#[tokio::test]
async fn a_stale_socket_of_a_killed_sidecar_is_replaced_at_the_start() {
    let node = Node::new();
    let _driver = TestDriver::named("x.csi").start(&node.driver);
    let socket = node.registration_socket("x.csi");
    std::mem::forget(Socket::bind(&Endpoint::try_from(socket.as_path()).unwrap()).unwrap());
    let stale = inode(&socket);
    let sidecar = node.start(&[]);
    until("a fresh socket", || inode(&socket) != stale).await;
    let mut kubelet = Kubelet::connect(&Endpoint::try_from(socket.as_path()).unwrap());
    assert_eq!(kubelet.asks().await.name, "x.csi");
    sidecar.stop().await;
}

#[tokio::test]
async fn paths_that_cannot_work_are_named() {
    let node = Node::new();
    let missing = node.folder.path().join("nowhere");
    let flag = format!("--plugin-registration-path={}", missing.display());
    // Without a driver: nobody should have to wait for one to learn this.
    let error = node.start(&[&flag]).ended().await.unwrap_err().to_string();
    assert!(
        error.contains("--plugin-registration-path") && error.contains("nowhere"),
        "{error}"
    );

    let long = node.folder.path().join("x".repeat(60));
    fs::create_dir(&long).unwrap();
    let flag = format!("--plugin-registration-path={}", long.display());
    let _driver = TestDriver::named(&"d".repeat(63)).start(&node.driver);
    let error = node.start(&[&flag]).ended().await.unwrap_err();
    let error = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    assert!(
        error.contains("--plugin-registration-path") && error.contains("at most 107"),
        "{error}"
    );
}
