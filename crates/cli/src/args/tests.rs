use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};
use serde_json::Value;

use super::{Args, Command};

mod charts;
mod public_manifests;
mod weka_chart;

#[test]
fn the_command_line_is_well_formed() {
    Args::command().debug_assert();
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Arguments of every container that runs a sidecar of ours, in all documents of a file.
fn sidecar_arguments(file: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(file).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let containers = documents
        .iter()
        .filter_map(|it| it.pointer("/spec/template/spec/containers")?.as_array())
        .flatten();
    containers
        .filter(|it| it["args"][0] == "sidecar")
        .map(|it| serde_json::from_value(it["args"].clone()).unwrap())
        .collect()
}

fn must_parse(file: &Path, arguments: Vec<String>) {
    let line = ["stowage".to_owned()].into_iter().chain(arguments);
    let parsed = Args::try_parse_from(line);
    let parsed = parsed.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert!(matches!(parsed.command, Command::Sidecar(_)));
}

/// What the operator writes into pods, the sidecar must understand.
#[test]
fn the_sidecar_takes_every_command_line_that_the_operator_writes() {
    let golden = project().join("crates/operator/tests/golden");
    let mut seen = 0;
    for case in fs::read_dir(golden).unwrap() {
        let file = case.unwrap().path().join("objects.yaml");
        for arguments in sidecar_arguments(&file) {
            must_parse(&file, arguments);
            seen += 1;
        }
    }
    assert!(seen >= 6, "only {seen} command lines were found");
}

#[test]
fn the_sidecar_takes_the_command_lines_of_the_samples() {
    let mut seen = 0;
    for file in fs::read_dir(project().join("deploy/without-operator")).unwrap() {
        let file = file.unwrap().path();
        for arguments in sidecar_arguments(&file) {
            must_parse(&file, arguments);
            seen += 1;
        }
    }
    assert!(seen >= 3, "only {seen} command lines were found");
}
