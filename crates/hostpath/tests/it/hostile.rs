//! Names and ids that nobody should send: no panic, no wrong code, nothing touched outside the state directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stowage_csi::proto::csi::*;
use tonic::{Code, Status};

use crate::rig::{Rig, block, exactly, filesystem, from_snapshot, from_volume, text};
use crate::support::{MIB, isolated};

fn hostile_texts(id: &str) -> Vec<String> {
    let key = &id[4..36];
    let mut texts: Vec<String> = [
        "..",
        ".",
        "/",
        "../../outside/file",
        "/etc/passwd",
        "a/b",
        "vol-",
        "-",
        " ",
        "\t",
        "\n",
        "~",
        "$(reboot)",
        "%2e%2e%2f",
        "..\\..\\",
        "\u{202e}",
        "ünï©ödé",
        "\u{feff}",
        "𝕧𝕠𝕝",
        "\u{e000}",
        "csi-2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        "fake-vol-id-0123456789",
        "weka/v2/fs/csivol-x",
        "dir/v1/fs/path:rw",
        "vpsa-00000001:volume-00000001",
    ]
    .map(ToOwned::to_owned)
    .into();
    texts.extend([
        "\0".to_owned(),
        format!("{id}\0"),
        format!("{id}/../x"),
        format!("vol-{key}-.."),
        format!("vol-{key}-../node-1"),
        format!("vol-{}-node-1", "..".repeat(16)),
        format!("vol-{}-node-1", key.to_uppercase()),
        format!("snap-{key}-node-1"),
        // As long as a key, and a path to something that looks like a half-made image.
        format!("vol-../../outside{}decoy-node-1", "/".repeat(14)),
        id.to_uppercase(),
        "x".repeat(128),
        "x".repeat(10_000),
        "é".repeat(5_000),
        "../".repeat(3_000),
    ]);
    texts
}

/// Everything below a directory but the state directory, with its content.
fn outside(directory: &Path, state: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path == state {
            continue;
        }
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(outside(&path, state));
        }
        let content = if kind.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        found.insert(path, content);
    }
    found
}

fn code<T>(answer: Result<T, Status>) -> Code {
    match answer {
        Ok(_) => Code::Ok,
        Err(status) => {
            assert!(!status.message().contains("panicked"), "{status}");
            status.code()
        }
    }
}

fn is_allowed(text: &str, code: Code, expected: &[Code], rpc: &str) {
    let fine = expected.contains(&code) || text.len() > 128 && code == Code::InvalidArgument;
    assert!(
        fine,
        "{rpc}({:?}...) answers {code:?}",
        text.chars().take(80).collect::<String>()
    );
}

isolated! {
    async fn hostile_ids_reach_nothing(directory: &Path) {
        let mut rig = Rig::start(directory, &["--enable-attach"]);
        let id = rig.create("pvc", 8 * MIB, &block()).await.unwrap().volume_id;
        fs::create_dir(directory.join("outside")).unwrap();
        fs::write(directory.join("outside/file"), "content").unwrap();
        fs::write(directory.join("outside/decoy.img"), "content").unwrap();
        fs::set_permissions(directory.join("outside/decoy.img"), fs::Permissions::from_mode(0o200)).unwrap();
        fs::create_dir_all(rig.target("x").parent().unwrap()).unwrap();
        let staging = directory.join("stage");
        fs::create_dir(&staging).unwrap();
        let before = outside(directory, &rig.state);
        let files = rig.files();
        for text_id in hostile_texts(&id) {
            use Code::{FailedPrecondition as Refused, InvalidArgument as Invalid, NotFound as Missing, Ok as Fine, ResourceExhausted as Elsewhere};
            let t = &text_id;
            let check = |answer: Code, expected: &[Code], rpc: &str| is_allowed(t, answer, expected, rpc);
            check(code(rig.delete(t).await), &[Fine], "DeleteVolume");
            check(code(rig.delete_snapshot(t).await), &[Fine], "DeleteSnapshot");
            check(code(rig.expand(t, MIB).await), &[Missing], "ControllerExpandVolume");
            check(code(rig.snapshot("snap", t).await), &[Missing], "CreateSnapshot");
            check(code(rig.create_from("copy", 0, &block(), from_volume(t)).await), &[Missing, Elsewhere], "CreateVolume from volume");
            check(code(rig.create_from("copy", 0, &block(), from_snapshot(t)).await), &[Missing, Elsewhere], "CreateVolume from snapshot");
            let request = ControllerGetVolumeRequest { volume_id: t.clone() };
            check(code(rig.controller.controller_get_volume(request).await), &[Missing], "ControllerGetVolume");
            let request = GetSnapshotRequest { snapshot_id: t.clone(), ..Default::default() };
            check(code(rig.controller.get_snapshot(request).await), &[Missing], "GetSnapshot");
            let request = ListSnapshotsRequest { snapshot_id: t.clone(), source_volume_id: t.clone(), ..Default::default() };
            check(code(rig.controller.list_snapshots(request).await), &[Fine], "ListSnapshots");
            let request = ListVolumesRequest { starting_token: t.clone(), ..Default::default() };
            assert_eq!(code(rig.controller.list_volumes(request).await), Code::Aborted);
            let request = ControllerPublishVolumeRequest { volume_id: id.clone(), node_id: t.clone(), volume_capability: Some(block()), ..Default::default() };
            check(code(rig.controller.controller_publish_volume(request).await), &[Missing], "ControllerPublishVolume");
            let request = NodeStageVolumeRequest { volume_id: t.clone(), staging_target_path: text(&staging), volume_capability: Some(filesystem("")), ..Default::default() };
            check(code(rig.node.node_stage_volume(request).await), &[Missing], "NodeStageVolume");
            let request = NodeUnstageVolumeRequest { volume_id: t.clone(), staging_target_path: text(&staging) };
            check(code(rig.node.node_unstage_volume(request).await), &[Missing], "NodeUnstageVolume");
            let request = NodePublishVolumeRequest { volume_id: t.clone(), staging_target_path: text(&staging), target_path: text(&rig.target("x")), volume_capability: Some(filesystem("")), ..Default::default() };
            check(code(rig.node.node_publish_volume(request).await), &[Missing], "NodePublishVolume");
            check(code(rig.unpublish(t, "x").await), &[Fine], "NodeUnpublishVolume");
            check(code(rig.stats(t, "/").await), &[Missing], "NodeGetVolumeStats");
            check(code(rig.node_expand(t, Path::new("/"), 0).await), &[Missing], "NodeExpandVolume");
            // Paths that are no paths, for a volume that exists.
            let request = NodeStageVolumeRequest { volume_id: id.clone(), staging_target_path: t.replace('/', "_"), volume_capability: Some(block()), ..Default::default() };
            check(code(rig.node.node_stage_volume(request).await), &[Invalid], "NodeStageVolume");
            let _ = Refused;
        }
        assert_eq!(outside(directory, &rig.state), before);
        assert_eq!(rig.files(), files);
        rig.delete(&id).await.unwrap();
        rig.stop().await;
    }

    async fn hostile_names_are_names_or_refused(directory: &Path) {
        let rig = Rig::start(directory, &[]);
        let source = rig.create("source", 4 * MIB, &block()).await.unwrap().volume_id;
        let before = outside(directory, &rig.state);
        let mut made = 1;
        for name in hostile_texts(&source) {
            let control = name.chars().any(|c| c.is_control() && !"\t\n\r".contains(c));
            let volume = rig.create(&name, 4 * MIB, &block()).await;
            let snapshot = rig.snapshot(&name, &source).await;
            if name.len() > 128 || control {
                assert_eq!((code(volume), code(snapshot)), (Code::InvalidArgument, Code::InvalidArgument), "{name:?}");
                continue;
            }
            let (volume, snapshot) = (volume.unwrap(), snapshot.unwrap());
            assert_eq!(rig.create(&name, 4 * MIB, &block()).await.unwrap(), volume);
            made += 1;
            assert!(volume.volume_id.starts_with("vol-") && snapshot.snapshot_id.starts_with("snap-"));
        }
        assert_eq!(rig.files().len(), 4 * made - 2);
        for file in rig.files() {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        }
        assert_eq!(outside(directory, &rig.state), before);
        rig.stop().await;
    }

    async fn hostile_arguments_are_refused(directory: &Path) {
        let mut rig = Rig::start(directory, &[]);
        for (required, limit) in [(i64::MAX, 0), (-1, 0), (2, 1), (0, i64::MIN), (1, 100)] {
            let request = CreateVolumeRequest {
                name: "pvc".to_owned(),
                capacity_range: Some(CapacityRange { required_bytes: required, limit_bytes: limit }),
                volume_capabilities: vec![block()],
                ..Default::default()
            };
            let answer = code(rig.controller.create_volume(request).await);
            assert!(matches!(answer, Code::OutOfRange | Code::InvalidArgument), "{required} {limit}: {answer:?}");
        }
        let id = rig.create("fs", 32 * MIB, &filesystem("")).await.unwrap().volume_id;
        let mut flags = filesystem("");
        let Some(volume_capability::AccessType::Mount(mount)) = &mut flags.access_type else { unreachable!() };
        mount.mount_flags = vec!["loop=/dev/sda".to_owned(), "bind".to_owned(), "; reboot".to_owned()];
        assert_ne!(code(rig.stage(&id, &flags).await), Code::Ok);
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!table.contains(&text(directory)), "nothing is mounted");
        let request = ControllerExpandVolumeRequest { volume_id: id.clone(), capacity_range: exactly(1 << 62), ..Default::default() };
        assert_eq!(code(rig.controller.controller_expand_volume(request).await), Code::OutOfRange);
        rig.delete(&id).await.unwrap();
        rig.stop().await;
    }
}
