//! The conformance suite against the driver as a process: nothing may fail, and what is skipped is counted: the cases
//! of attachments unless they are on.

use std::path::Path;

use clap::Parser;
use stowage_conformance::{ConformanceArgs, Options, conformance};
use tokio_util::sync::CancellationToken;

use crate::crash;
use crate::lifecycle::may_grow_ext4;
use crate::support::isolated;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: ConformanceArgs,
}

/// Runs all cases and tells how many passed and were skipped.
async fn run(directory: &Path, flags: &[&str], more: &[&str]) -> (usize, usize) {
    let flags: Vec<_> = flags.iter().copied().chain(growing()).collect();
    let mut driver = crash::start_with(directory, &flags);
    let socket = format!("--endpoint={}", directory.join("csi.sock").display());
    for place in ["stage", "target"] {
        std::fs::create_dir_all(directory.join(place)).unwrap();
    }
    let mutable = directory.join("mutable.yaml");
    std::fs::write(&mutable, "directIO: \"true\"\n").unwrap();
    let places = [
        format!("--mutable-parameters={}", mutable.display()),
        format!("--staging-dir={}", directory.join("stage").display()),
        format!("--target-dir={}", directory.join("target").display()),
    ];
    let words = [
        "conformance",
        &socket,
        "--volume-size=400Mi",
        "--expand-size=500Mi",
    ];
    let words = words
        .into_iter()
        .chain(places.iter().map(String::as_str))
        .chain(more.iter().copied());
    let options = Options::try_from(&Command::parse_from(words).args).unwrap();
    let report = conformance(options, CancellationToken::new(), |_| {})
        .await
        .unwrap();
    crash::kill(&mut driver);
    let failed: Vec<_> = report.failed().collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let counts = report.counts();
    (counts.passed, counts.skipped)
}

/// The suite expands a filesystem in use. Where the kernel refuses that for ext4, it is done with another.
fn growing() -> Option<&'static str> {
    (!may_grow_ext4()).then_some("--default-fstype=xfs")
}

isolated! {
    async fn the_suite_passes_with_filesystems(directory: &Path) {
        let (passed, skipped) = run(directory, &[], &[]).await;
        assert_eq!((passed, skipped), (85, 10));
    }

    async fn the_suite_passes_with_raw_block_volumes(directory: &Path) {
        let (passed, skipped) = run(directory, &[], &["--access-type=block"]).await;
        assert_eq!((passed, skipped), (85, 10));
    }

    async fn the_suite_passes_with_attachments_up_to_the_limit(directory: &Path) {
        let flags = ["--enable-attach", "--maxvolumespernode=3"];
        let (passed, skipped) = run(directory, &flags, &["--attach-limit"]).await;
        assert_eq!((passed, skipped), (95, 0));
    }
}
