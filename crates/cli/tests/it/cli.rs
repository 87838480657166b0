//! The real binary: help, wrong usage, printed definitions.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

use std::fs;
use std::io::pipe;
use std::path::Path;
use std::process::{Command, Output};

fn stowage(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stowage"));
    command.args(args).env_clear();
    command
}

fn run(args: &[&str]) -> Output {
    stowage(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn help_is_the_map_of_the_product() {
    let output = run(&["--help"]);
    let help = text(&output.stdout);
    assert!(output.status.success());
    assert!(
        help.starts_with("Puts CSI storage on a Kubernetes cluster and keeps it there\n"),
        "{help}"
    );
    let commands: Vec<_> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        commands,
        [
            "conformance",
            "crds",
            "driver",
            "migrate",
            "operator",
            "setup",
            "sidecar",
            "sim",
            "snapshot-controller",
            "status",
            "takeover",
            "help"
        ]
    );
    let (_, end) = help.split_once("\nExamples:\n").unwrap();
    assert!(end.contains("stowage crds | kubectl apply -f -"), "{end}");
}

#[test]
fn every_command_explains_itself_with_examples() {
    for command in [
        &["conformance"][..],
        &["crds"],
        &["driver", "hostpath"],
        &["migrate", "weka-legacy"],
        &["operator"],
        &["sidecar", "controller"],
        &["sidecar", "node"],
        &["status"],
        &["takeover", "weka"],
    ] {
        let output = run(&[command, &["--help"]].concat());
        assert!(output.status.success());
        assert!(
            text(&output.stdout).contains("\nExamples:\n"),
            "{command:?}"
        );
    }
}

#[test]
fn version_is_the_package_version() {
    let output = run(&["--version"]);
    assert_eq!(
        text(&output.stdout),
        concat!("stowage ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn wrong_usage_ends_with_code_2_and_a_hint() {
    for (args, hint) in [
        (&["statsu"][..], "'status'"),
        (&["crds", "--group", "snapshot"], "'snapshots'"),
        (&["status", "--output", "yaml"], "table, json"),
        (&["status", "--kubeconfig"], "--kubeconfig <FILE>"),
        (&["takeover", "weka"], "--check"),
        (
            &["takeover", "weka", "--check", "--instance", "weka"],
            "NAMESPACE/NAME",
        ),
        (
            &["takeover", "weka", "--check", "-o", "yaml"],
            "table, json, manifest",
        ),
        (&[], "Usage: stowage"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        assert!(text(&output.stderr).contains(hint), "{args:?}: {output:?}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let output = stowage(&["crds"])
        .stdout(writer)
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_full_disk_is_an_error() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = stowage(&["crds"])
        .stdout(full)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).starts_with("error: cannot write to standard output: No space left"),
        "{output:?}"
    );
}

#[test]
fn committed_definitions_are_those_that_the_binary_prints() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (group, file) in [
        ("driver-deployments", "csidriver.storage.openshift.io.yaml"),
        ("snapshots", "snapshot.storage.k8s.io.yaml"),
        ("group-snapshots", "groupsnapshot.storage.k8s.io.yaml"),
        ("vpsa", "storage.zadara.com.yaml"),
        ("weka", "weka.weka.io.yaml"),
    ] {
        let output = run(&["crds", "--group", group]);
        assert!(output.status.success());
        let path = crates.with_file_name("deploy").join("crds").join(file);
        let committed = fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == text(&output.stdout),
            "deploy/crds/{file} is not what the code says; write it again with:\n  \
             cargo run -p stowage -- crds --group {group} > deploy/crds/{file}"
        );
    }
}
