//! Disks, attached by the stand-in for `iscsiadm`. Needs root, /dev/fuse and loop devices.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use stowage_host::loopdev::{LoopOptions, Loops};

use crate::vpsa::node::{Node, blocking};
use crate::vpsa::rig::Rig;

const GB: u64 = 1 << 30;

struct Scene {
    rig: Rig,
    node: Node,
    server: String,
    volume: String,
    place: String,
}

/// A node with a disk attached, and a record with the secret.
async fn scene() -> Scene {
    let rig = Rig::with_data().await;
    let node = Node::start("node");
    let server = rig.server("node", &node.ip.to_string()).await;
    let volume = rig.volume("disk", "YES", 1).await;
    rig.attach(&server, &volume, json!({})).await;
    let login = rig.login("node").await;
    let portal = login.portal.ip();
    let found = node
        .iscsiadm(&format!("-m discovery -t sendtargets -p {portal}"))
        .await;
    assert_eq!(
        found.out,
        format!("{portal}:3260,1 {}\n", login.target),
        "{found:?}"
    );
    let place = format!("-m node -T {} -p {portal}:3260", login.target);
    let (user, secret) = login.chap.unwrap();
    for (name, value) in [
        ("auth.authmethod", "CHAP"),
        ("auth.username", &user),
        ("auth.password", &secret),
        ("timeo.replacement_timeout", "20"),
    ] {
        let line = format!("{place} -o update -n node.session.{name} -v {value}");
        assert_eq!(node.iscsiadm(&line).await.code, 0);
    }
    Scene {
        rig,
        node,
        server,
        volume,
        place,
    }
}

impl Scene {
    async fn log_in(&self) {
        let printed = self.node.iscsiadm(&format!("{} --login", self.place)).await;
        assert_eq!(printed.code, 0, "{printed:?}");
        assert!(printed.out.contains("successful"), "{printed:?}");
    }
}

fn size(device: &Path) -> u64 {
    let mut file = File::open(device).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap()
}

#[tokio::test]
async fn a_disk_is_a_block_device_whose_blocks_are_on_the_array() {
    let scene = scene().await;
    assert_eq!(scene.node.iscsiadm("-m session").await.code, 21);
    scene.log_in().await;
    let again = scene
        .node
        .iscsiadm(&format!("{} --login", scene.place))
        .await;
    assert_eq!(again.code, 15, "{again:?}");
    let sessions = scene.node.iscsiadm("-m session").await;
    assert!(sessions.out.starts_with("tcp: [1] "), "{sessions:?}");
    let device = scene.node.disk().unwrap();
    assert!(device.to_str().unwrap().ends_with("-lun-0"));
    assert_eq!(size(&device), GB);
    let path = device.clone();
    blocking(move || {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&[7; 8192], 512 << 20).unwrap();
        file.sync_all().unwrap();
    })
    .await;
    let behind = scene
        .rig
        .data
        .path()
        .join(format!("volumes/{}/disk", scene.volume));
    let mut bytes = [0; 8192];
    File::open(behind)
        .unwrap()
        .read_exact_at(&mut bytes, 512 << 20)
        .unwrap();
    assert_eq!(bytes, [7; 8192]);

    let body = json!({"capacity": "1G"});
    let path = format!("volumes/{}/expand", scene.volume);
    scene.rig.post(&path, body).await.fields();
    assert_eq!(size(&device), GB);
    let printed = scene
        .node
        .iscsiadm(&format!("{} --rescan", scene.place))
        .await;
    assert_eq!(printed.code, 0, "{printed:?}");
    assert_eq!(size(&device), 2 * GB);

    let loop_device = std::fs::canonicalize(&device).unwrap();
    let number = loop_device.file_name().unwrap().to_str().unwrap();
    let behind = format!("/sys/block/{number}/loop/backing_file");
    let served = std::fs::read_to_string(&behind).unwrap();
    let printed = scene
        .node
        .iscsiadm(&format!("{} --logout", scene.place))
        .await;
    assert_eq!(printed.code, 0, "{printed:?}");
    assert_eq!(scene.node.disk(), None);
    // Another test may have the number by now, or the device open for a moment.
    for _ in 0..100 {
        if std::fs::read_to_string(&behind).ok().as_ref() != Some(&served) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{number} still shows {served}");
}

#[tokio::test]
async fn what_was_written_to_a_disk_last_is_on_the_array_after_the_logout() {
    let scene = scene().await;
    scene.log_in().await;
    let device = scene.node.disk().unwrap();
    blocking(move || {
        // Not written out: the kernel does that when it takes a disk away.
        let file = OpenOptions::new().write(true).open(device).unwrap();
        file.write_all_at(&[7; 64], 0).unwrap();
    })
    .await;
    let line = format!("{} --logout", scene.place);
    assert_eq!(scene.node.iscsiadm(&line).await.code, 0);
    let behind = format!("volumes/{}/disk", scene.volume);
    let mut bytes = [0; 64];
    let behind = File::open(scene.rig.data.path().join(behind)).unwrap();
    behind.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [7; 64]);
}

#[tokio::test]
async fn logins_are_refused_with_the_codes_of_open_iscsi() {
    let scene = scene().await;
    let Scene { rig, node, .. } = &scene;
    let password = format!(
        "{} -o update -n node.session.auth.password -v wrong-wrong-wrong",
        scene.place
    );
    node.iscsiadm(&password).await;
    let login = format!("{} --login", scene.place);
    let printed = node.iscsiadm(&login).await;
    assert_eq!(printed.code, 24, "{printed:?}");
    assert!(!printed.err.contains("wrong-wrong"), "{printed:?}");
    rig.detach(&scene.server, &scene.volume).await;
    assert_eq!(node.iscsiadm(&login).await.code, 19);
    rig.array.control().set_data(false).await.unwrap();
    assert_eq!(node.iscsiadm(&login).await.code, 8);
    node.iscsiadm(&format!("{} -o delete", scene.place)).await;
    assert_eq!(node.iscsiadm(&login).await.code, 21);
}

#[tokio::test]
async fn a_filesystem_on_a_disk_survives_a_lost_session() {
    let scene = scene().await;
    scene.log_in().await;
    let device = scene.node.disk().unwrap();
    let mounted = scene.node.path("filesystem");
    std::fs::create_dir(&mounted).unwrap();
    let (path, target) = (device.clone(), mounted.clone());
    blocking(move || {
        let made = Command::new("mkfs.ext4").arg("-q").arg(&path).status();
        assert!(made.unwrap().success());
        let mounted = Command::new("mount").arg(&path).arg(&target).status();
        assert!(mounted.unwrap().success());
    })
    .await;
    scene.rig.array.control().set_data(false).await.unwrap();
    scene.rig.array.control().set_data(true).await.unwrap();
    let file = mounted.join("file");
    let read = blocking(move || {
        let file = {
            std::fs::write(&file, "text").unwrap();
            File::open(&file).unwrap().sync_all().unwrap();
            std::fs::read_to_string(&file)
        };
        let unmounted = Command::new("umount").arg(&mounted).status();
        assert!(unmounted.unwrap().success());
        file
    })
    .await;
    assert_eq!(read.unwrap(), "text");
}

#[tokio::test]
async fn what_a_dead_process_left_is_no_disk_of_the_next() {
    let mut scene = scene().await;
    scene.log_in().await;
    assert!(scene.node.disk().is_some());
    scene.node.replace_host();
    assert_eq!(scene.node.disk(), None);
    scene.log_in().await;
    assert!(scene.node.disk().is_some());
}

/// Ends the FUSE connection behind a loop device, as when the process that serves it dies.
fn cut_off(device: &Path, place: &Path) {
    let mut losetup = Command::new("losetup");
    let filesystem = ["--noheadings", "--output", "BACK-MAJ:MIN"];
    let said = losetup
        .args(filesystem)
        .arg(device)
        .output()
        .unwrap()
        .stdout;
    let said = String::from_utf8(said).unwrap();
    let (_, number) = said.trim().split_once(':').unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let status = Command::new(program).args(arguments).arg(place).status();
        assert!(status.unwrap().success(), "{program}");
    };
    run("mount", &["-t", "fusectl", "none"]);
    let ended = std::fs::write(place.join(number).join("abort"), "1");
    run("umount", &[]);
    ended.unwrap();
}

#[tokio::test]
async fn a_disk_that_nobody_serves_any_more_hides_no_other_loop_device() {
    let scene = scene().await;
    scene.log_in().await;
    let device = std::fs::canonicalize(scene.node.disk().unwrap()).unwrap();
    let place = scene.node.path("connections");
    std::fs::create_dir(&place).unwrap();
    blocking(move || {
        let other = tempfile::tempfile().unwrap();
        other.set_len(1 << 20).unwrap();
        let loops = Loops::default();
        let attached = loops.attach(&other, LoopOptions::default()).unwrap();
        cut_off(&device, &place);
        let found = loops.find(&other).map(|found| found.len());
        attached.detach(&loops).unwrap();
        assert_eq!(found.unwrap(), 1);
    })
    .await;
}
