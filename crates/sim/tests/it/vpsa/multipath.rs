//! A disk with two paths, by the stand-ins for `multipath` and `multipathd`. Needs root, /dev/fuse and loop devices.

use std::fs::{File, OpenOptions};
use std::net::IpAddr;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::json;
use stowage_sim::vpsa::host::initiator::Printed;
use stowage_sim::vpsa::host::tools::multipath;

use crate::vpsa::node::{Node, blocking};
use crate::vpsa::rig::{Rig, own_address};

const PATHS: &str = "show paths raw format %d|%m|%t";

struct Scene {
    rig: Rig,
    node: Node,
    volume: String,
    portals: [IpAddr; 2],
}

impl Scene {
    async fn run(&self, line: &str) -> Printed {
        let arguments = line.split(' ').map(ToOwned::to_owned).collect();
        let socket = self.node.path("host.sock");
        blocking(move || multipath(arguments, &socket)).await
    }

    /// How each path is: its map, and whether it works.
    async fn paths(&self) -> Vec<(String, String)> {
        let shown = self.run(PATHS).await.out;
        let words = shown.lines().map(|line| {
            let words: Vec<&str> = line.split('|').collect();
            (words[1].to_owned(), words[2].to_owned())
        });
        words.collect()
    }

    async fn iscsiadm(&self, line: &str) {
        let printed = self.node.iscsiadm(line).await;
        assert_eq!(printed.code, 0, "{line}: {printed:?}");
    }
}

/// A node that has logged in at both portals of an array, through an interface of its own.
async fn scene() -> Scene {
    let portals = [own_address(), own_address()];
    let rig = Rig::start(|options| {
        options.no_data = false;
        options.address = portals.to_vec();
    })
    .await;
    let node = Node::start("node");
    let server = rig.server("node", &node.ip.to_string()).await;
    let volume = rig.volume("disk", "YES", 1).await;
    rig.attach(&server, &volume, json!({})).await;
    let login = rig.login("node").await;
    let (user, secret) = login.chap.unwrap();
    let missing = format!(
        "-m node -T {} -p {} -I nic -o new",
        login.target, portals[0]
    );
    assert_ne!(node.iscsiadm(&missing).await.code, 0, "no such interface");
    let scene = Scene {
        rig,
        node,
        volume,
        portals,
    };
    scene.iscsiadm("-m iface -I nic -o new").await;
    for portal in portals {
        let place = format!("-m node -T {} -p {portal}:3260 -I nic", login.target);
        scene.iscsiadm(&format!("{place} -o new")).await;
        for (name, value) in [
            ("auth.authmethod", "CHAP"),
            ("auth.username", &user),
            ("auth.password", &secret),
            ("timeo.replacement_timeout", "1"),
        ] {
            let setting = format!("{place} -o update -n node.session.{name} -v {value}");
            scene.iscsiadm(&setting).await;
        }
        scene.iscsiadm(&format!("{place} --login")).await;
    }
    scene
}

fn read(device: &Path) -> std::io::Result<u8> {
    let mut bytes = [0; 4096];
    File::open(device)?.read_exact_at(&mut bytes, 8 << 20)?;
    Ok(bytes[0])
}

async fn write(device: &Path, letter: u8) {
    let device = device.to_owned();
    blocking(move || {
        let file = OpenOptions::new().write(true).open(&device).unwrap();
        file.write_all_at(&[letter; 4096], 8 << 20).unwrap();
        file.sync_all().unwrap();
    })
    .await;
}

fn map(node: &Node) -> Option<PathBuf> {
    let mut links = std::fs::read_dir(node.path("mapper")).unwrap();
    links.next().map(|link| link.unwrap().path())
}

#[tokio::test]
async fn a_disk_with_two_paths_is_one_device_which_lives_as_long_as_one_of_them_works() {
    let scene = scene().await;
    let sessions = scene.node.iscsiadm("-m session -P 1").await.out;
    assert_eq!(
        sessions.matches("\t\tIface Name: nic\n").count(),
        2,
        "{sessions}"
    );
    let device = map(&scene.node).unwrap();
    let name = device.file_name().unwrap().to_str().unwrap().to_owned();
    let both = |states: [&str; 2]| states.map(|state| (name.clone(), state.to_owned()));
    assert_eq!(scene.paths().await, both(["active", "active"]));
    write(&device, 1).await;

    let control = scene.rig.array.control();
    for (lost, states) in [(0, ["failed", "active"]), (1, ["active", "failed"])] {
        let lost = Some(scene.portals[lost]);
        control.set_data_at(lost, false).await.unwrap();
        assert_eq!(scene.paths().await, both(states));
        write(&device, 2).await;
        control.set_data_at(lost, true).await.unwrap();
        assert_eq!(scene.paths().await, both(["active", "active"]));
    }
    let there = device.clone();
    assert_eq!(blocking(move || read(&there)).await.unwrap(), 2);
}

#[tokio::test]
async fn a_map_grows_when_it_is_told_to_and_goes_when_nobody_uses_it() {
    let scene = scene().await;
    let device = map(&scene.node).unwrap();
    let name = device.file_name().unwrap().to_str().unwrap().to_owned();
    let size = |device: &Path| {
        let mut file = File::open(device).unwrap();
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap()
    };
    let grow = format!("volumes/{}/expand", scene.volume);
    scene
        .rig
        .post(&grow, json!({"capacity": "1G"}))
        .await
        .fields();
    scene.iscsiadm("-m session --rescan").await;
    assert_eq!(size(&device), 1 << 30, "paths have grown, the map has not");
    assert_eq!(scene.run(&format!("resize map {name}")).await.out, "ok\n");
    assert_eq!(size(&device), 2 << 30);
    assert_eq!(scene.run("resize map other").await.out, "fail\n");

    // As a mount has it.
    let mut alone = OpenOptions::new();
    alone
        .read(true)
        .custom_flags(OFlags::EXCL.bits().cast_signed());
    let user = alone.open(&device).unwrap();
    let busy = scene.run(&format!("-f {name}")).await;
    assert!(busy.code == 1 && busy.err.contains("in use"), "{busy:?}");
    drop(user);
    assert_eq!(scene.run(&format!("-f {name}")).await.code, 0);
    assert_eq!(map(&scene.node), None);
    let orphans = scene.paths().await;
    assert!(
        orphans.iter().all(|(map, _)| map == "[orphan]"),
        "{orphans:?}"
    );

    scene.iscsiadm("-m session --rescan").await;
    assert!(map(&scene.node).is_some());
    let busy = scene.node.iscsiadm("-m iface -I nic -o delete").await;
    assert_eq!(busy.code, 28, "{busy:?}");
    scene.iscsiadm("-m session -u").await;
    assert_eq!(map(&scene.node), None, "its paths are gone");
    scene.iscsiadm("-m iface -I nic -o delete").await;
}
