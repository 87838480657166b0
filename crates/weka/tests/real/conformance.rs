//! The conformance suite: nothing may fail, and what is skipped is counted.

use std::path::Path;

use clap::Parser;
use devcluster::isolated;
use serde_json::json;
use stowage_conformance::{ConformanceArgs, Options, conformance};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::nfs;
use crate::rig::{ALLOWED, GIB, Rig};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: ConformanceArgs,
}

const DIRECTORIES: &str = "volumeType: dir/v1\nfilesystemName: default\n";

/// Runs all cases with volumes of a class, and tells how many passed and were skipped.
async fn run(directory: &Path, rig: &Rig, class: &str) -> (usize, usize) {
    std::fs::create_dir_all(directory.join("target")).unwrap();
    let file = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let yaml = |map: &crate::rig::Map| {
        map.iter()
            .map(|(key, value)| format!("  {key}: \"{value}\"\n"))
            .collect::<String>()
    };
    let calls = [
        "CreateVolumeSecret",
        "DeleteVolumeSecret",
        "ControllerValidateVolumeCapabilitiesSecret",
        "NodePublishVolumeSecret",
        "ControllerExpandVolumeSecret",
        "ControllerModifyVolumeSecret",
        "CreateSnapshotSecret",
        "DeleteSnapshotSecret",
    ];
    let secrets: String = calls
        .iter()
        .map(|call| format!("{call}:\n{}", yaml(&rig.secret)))
        .collect();
    let mut words = vec![
        "conformance".to_owned(),
        format!("--endpoint={}", directory.join("csi.sock").display()),
        format!("--target-dir={}", directory.join("target").display()),
        format!(
            "--volume-parameters={}",
            file("parameters.yaml", class.to_owned())
        ),
    ];
    if !rig.secret.is_empty() {
        words.push(format!(
            "--mutable-parameters={}",
            file("mutable.yaml", "capacityEnforcement: SOFT\n".to_owned())
        ));
        words.push(format!("--secrets={}", file("secrets.yaml", secrets)));
    }
    let options = Options::try_from(&Command::parse_from(words).args).unwrap();
    let report = conformance(options, CancellationToken::new(), |_| {})
        .await
        .unwrap();
    let failed: Vec<_> = report.failed().collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let counts = report.counts();
    (counts.passed, counts.skipped)
}

isolated! {
    async fn the_suite_passes_with_volumes_of_every_backing_and_their_snapshots(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 100 * GIB })).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        for class in [DIRECTORIES, "filesystemName: empty\n", "filesystemGroupName: default\n"] {
            let (passed, skipped) = run(directory, &rig, class).await;
            assert_eq!((passed, skipped), (56, 39), "{class}");
        }
        assert_eq!(cluster.filesystems().await, ["default", "empty"]);
        assert_eq!(cluster.snapshots().await.len(), 1, "the seed stays");
        rig.stop().await;
    }

    async fn the_suite_passes_by_nfs_with_volumes_of_every_backing(directory: &Path) {
        let (cluster, _host) = nfs::start(directory, None).await;
        nfs::add_interface_group(&cluster, "first").await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 100 * GIB })).await;
        let flags = [&ALLOWED[..], &["--usenfs"]].concat();
        let rig = Rig::start(directory, &cluster, &flags);
        for class in [DIRECTORIES, "filesystemName: empty\n", "filesystemGroupName: default\n"] {
            let (passed, skipped) = run(directory, &rig, class).await;
            assert_eq!((passed, skipped), (56, 39), "{class}");
        }
        rig.stop().await;
    }

    async fn the_suite_passes_without_the_api(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let flags = ["--suppresssnapshotcapability", "--suppressrvolumeclonecapability"];
        let rig = Rig::start(directory, &cluster, &flags).legacy();
        let (passed, skipped) = run(directory, &rig, DIRECTORIES).await;
        assert_eq!((passed, skipped), (44, 51));
        rig.stop().await;
    }

    async fn the_suite_passes_with_the_legacy_secret(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let legacy = directory.join("legacy");
        std::fs::create_dir(&legacy).unwrap();
        for (key, value) in cluster.secret() {
            std::fs::write(legacy.join(key), value).unwrap();
        }
        cluster.add_filesystem("empty", &json!({ "total_capacity": 100 * GIB })).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED).legacy();
        for class in [DIRECTORIES, "filesystemName: empty\n", "filesystemGroupName: default\n"] {
            let (passed, skipped) = run(directory, &rig, class).await;
            assert_eq!((passed, skipped), (60, 35), "{class}");
        }
        rig.stop().await;
    }
}
