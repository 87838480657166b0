//! The conformance suite: nothing may fail, and what is skipped is counted.

use std::path::Path;

use clap::Parser;
use devcluster::isolated;
use stowage_conformance::{ConformanceArgs, Options, conformance};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::rig::Rig;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: ConformanceArgs,
}

/// Runs all cases and tells how many passed and were skipped.
async fn run(directory: &Path, rig: &Rig) -> (usize, usize) {
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
            file(
                "parameters.yaml",
                "volumeType: dir/v1\nfilesystemName: default\n".to_owned()
            )
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
    async fn the_suite_passes_over_the_api(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]);
        let (passed, skipped) = run(directory, &rig).await;
        assert_eq!((passed, skipped), (44, 51));
        rig.stop().await;
    }

    async fn the_suite_passes_without_the_api(directory: &Path) {
        let cluster = Cluster::start(directory, |_| {}).await;
        let rig = Rig::start(directory, &cluster, &[]).legacy();
        let (passed, skipped) = run(directory, &rig).await;
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
        let rig = Rig::start(directory, &cluster, &[]).legacy();
        let (passed, skipped) = run(directory, &rig).await;
        assert_eq!((passed, skipped), (48, 47));
        rig.stop().await;
    }
}
