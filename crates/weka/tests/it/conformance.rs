//! The conformance suite: nothing may fail, and what is skipped has a reason.

use std::collections::BTreeMap;
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

/// A capability, and how many cases are about it.
type Lacking = (&'static str, usize);

/// Mounts are the client's or NFS: nothing is attached, staged, or grown on nodes. The array cannot take snapshots of several
/// filesystems at one moment.
const NEVER: &[Lacking] = &[
    ("controller capability PUBLISH_UNPUBLISH_VOLUME", 10),
    ("node capability STAGE_UNSTAGE_VOLUME", 5),
    ("node capability EXPAND_VOLUME", 4),
    ("controller capability GET_SNAPSHOT", 3),
    ("plugin capability GROUP_CONTROLLER_SERVICE", 6),
];

/// Whose snapshots are whose only Kubernetes knows, which does not run here.
const WITHOUT_KUBERNETES: &[Lacking] = &[("controller capability LIST_SNAPSHOTS", 7)];

/// Nobody is asked for a secret to look around.
const WITHOUT_CREDENTIALS: &[Lacking] = &[
    ("controller capability LIST_VOLUMES", 3),
    ("controller capability GET_CAPACITY", 1),
];

/// Switched off by flags.
const SUPPRESSED: &[Lacking] = &[
    ("controller capability CREATE_DELETE_SNAPSHOT", 10),
    ("controller capability CLONE_VOLUME", 2),
];

const DIRECTORIES: &str = "volumeType: dir/v1\nfilesystemName: default\n";

/// Runs all cases with volumes of a class. All pass but those that are about what the driver lacks.
async fn run(directory: &Path, rig: &Rig, class: &str, lacking: &[&[Lacking]]) {
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
    let lacking = lacking.iter().copied().flatten();
    let expected: BTreeMap<String, usize> = lacking
        .map(|(what, cases)| (format!("the driver lacks the {what}"), *cases))
        .collect();
    let skipped = report.skipped().into_iter();
    let skipped: BTreeMap<String, usize> = skipped.map(|(why, n)| (why.to_owned(), n)).collect();
    assert_eq!(skipped, expected, "{class}");
}

isolated! {
    async fn the_suite_passes_with_volumes_of_every_backing_and_their_snapshots(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        cluster.add_filesystem("empty", &json!({ "total_capacity": 100 * GIB })).await;
        let rig = Rig::start(directory, &cluster, &ALLOWED);
        for class in [DIRECTORIES, "filesystemName: empty\n", "filesystemGroupName: default\n"] {
            run(directory, &rig, class, &[NEVER, WITHOUT_KUBERNETES, WITHOUT_CREDENTIALS]).await;
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
            run(directory, &rig, class, &[NEVER, WITHOUT_KUBERNETES, WITHOUT_CREDENTIALS]).await;
        }
        rig.stop().await;
    }

    async fn the_suite_passes_without_the_api(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let flags = ["--suppresssnapshotcapability", "--suppressrvolumeclonecapability"];
        let rig = Rig::start(directory, &cluster, &flags).legacy();
        run(directory, &rig, DIRECTORIES, &[NEVER, WITHOUT_KUBERNETES, WITHOUT_CREDENTIALS, SUPPRESSED]).await;
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
            run(directory, &rig, class, &[NEVER, WITHOUT_KUBERNETES]).await;
        }
        rig.stop().await;
    }
}
