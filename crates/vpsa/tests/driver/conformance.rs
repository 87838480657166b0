//! The conformance suite: nothing may fail, and nothing may be left on the array.

use std::path::Path;

use clap::Parser;
use devcluster::isolated;
use serde_json::{Value, json};
use stowage_conformance::{ConformanceArgs, Options, conformance};
use tokio_util::sync::CancellationToken;

use crate::rig::Rig;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: ConformanceArgs,
}

/// Runs all cases and tells how many passed and were skipped.
async fn run(directory: &Path, class: Value, more: &[&str]) -> (usize, usize) {
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
    let counts = report.counts();
    assert_eq!(rig.on_array().await, (0, 0, 0));
    rig.stop_driver().await;
    (counts.passed, counts.skipped)
}

isolated! {
    async fn the_suite_passes_with_shares(directory: &Path) {
        let counts = run(directory, json!({}), &[]).await;
        assert_eq!(counts, (77, 18));
    }

    async fn the_suite_passes_with_raw_disks(directory: &Path) {
        let counts = run(directory, json!({}), &["--access-type=block"]).await;
        assert_eq!(counts, (77, 18));
    }

    async fn the_suite_passes_with_filesystems_on_disks(directory: &Path) {
        let counts = run(directory, json!({"volumeType": "Block"}), &[]).await;
        assert_eq!(counts, (77, 18));
    }
}
