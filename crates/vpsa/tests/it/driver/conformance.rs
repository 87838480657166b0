//! The conformance suite: nothing may fail, and nothing may be left on the array.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Parser;
use devcluster::isolated;
use serde_json::{Value, json};
use stowage_conformance::{ConformanceArgs, Options, conformance};
use tokio_util::sync::CancellationToken;

use crate::driver::rig::Rig;

/// What the driver does not promise, and how many cases are about it.
const SKIPPED: [(&str, usize); 4] = [
    (
        "it may make very many volumes: --attach-limit turns it on",
        1,
    ),
    ("the driver lacks the controller capability GET_SNAPSHOT", 3),
    (
        "the driver lacks the controller capability MODIFY_VOLUME",
        8,
    ),
    (
        "the driver lacks the plugin capability GROUP_CONTROLLER_SERVICE",
        6,
    ),
];

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: ConformanceArgs,
}

/// Runs all cases: so many pass, and each of the others is skipped for one of these reasons.
async fn run(directory: &Path, class: Value, more: &[&str]) {
    let mut rig = Rig::start(directory, class).await;
    let place = |flag: &str, name: &str| format!("--{flag}={}", rig.path(name).display());
    for name in ["stage", "target"] {
        std::fs::create_dir_all(rig.path(name)).unwrap();
    }
    let words = [
        "conformance".to_owned(),
        place("endpoint", "csi.sock"),
        place("staging-dir", "stage"),
        place("target-dir", "target"),
        "--volume-size=1Gi".to_owned(),
        "--expand-size=2Gi".to_owned(),
    ];
    let words = words
        .into_iter()
        .chain(more.iter().map(|it| (*it).to_owned()));
    let options = Options::try_from(&Command::parse_from(words).args).unwrap();
    let report = conformance(options, CancellationToken::new(), |_| {})
        .await
        .unwrap();
    let failed: Vec<_> = report.failed().collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(report.counts().passed, 77);
    assert_eq!(report.skipped(), BTreeMap::from(SKIPPED));
    assert_eq!(rig.on_array().await, (0, 0, 0));
    rig.stop_driver().await;
}

isolated! {
    async fn the_suite_passes_with_shares(directory: &Path) {
        run(directory, json!({}), &[]).await;
    }

    async fn the_suite_passes_with_raw_disks(directory: &Path) {
        run(directory, json!({}), &["--access-type=block"]).await;
    }

    async fn the_suite_passes_with_filesystems_on_disks(directory: &Path) {
        run(directory, json!({"volumeType": "Block"}), &[]).await;
    }
}
