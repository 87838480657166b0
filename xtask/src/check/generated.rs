//! Files that a program of ours writes, and that are committed so that people can read and apply them.

use std::fs;
use std::process::Command;

use anyhow::{Context, bail};
use devcluster::process::capture;
use devcluster::report::Report;

use super::{charts, coverage};
use crate::workspace;

/// Files that a program writes, with the arguments that make it.
const GENERATED: &[(&str, &[&str])] = &[
    (
        "deploy/crds/csidriver.storage.openshift.io.yaml",
        &["crds", "--group", "driver-deployments"],
    ),
    (
        "deploy/prerequisites/01-crd.yaml",
        &["crds", "--group", "driver-deployments"],
    ),
    ("deploy/validation.yaml", &["crds", "--validation"]),
    (
        "docs/reference/csidriverdeployment.md",
        &["crds", "--group", "driver-deployments", "--reference"],
    ),
    (
        "deploy/crds/snapshot.storage.k8s.io.yaml",
        &["crds", "--group", "snapshots"],
    ),
    (
        "deploy/crds/groupsnapshot.storage.k8s.io.yaml",
        &["crds", "--group", "group-snapshots"],
    ),
    (
        "deploy/crds/storage.zadara.com.yaml",
        &["crds", "--group", "vpsa"],
    ),
    (
        "deploy/crds/weka.weka.io.yaml",
        &["crds", "--group", "weka"],
    ),
];

/// With `fix`, writes what is not as it should be.
pub fn check(fix: bool, report: &Report) -> anyhow::Result<()> {
    let program = workspace::build_debug(report)?;
    let step = report.step("Checking generated files");
    for (file, arguments) in GENERATED {
        let content = capture(Command::new(&program).args(*arguments))?;
        agree(file, &content, fix)?;
    }
    // In this order: the second are rendered from the first.
    for (file, content) in charts::files()? {
        agree(&file, &content, fix)?;
    }
    for (file, content) in charts::rendered()? {
        agree(&file, &content, fix)?;
    }
    agree(coverage::FILE, &coverage::page(&workspace::root())?, fix)?;
    step.done("");
    Ok(())
}

/// The file holds the content; with `fix`, afterwards.
fn agree(file: &str, content: &str, fix: bool) -> anyhow::Result<()> {
    let path = workspace::root().join(file);
    if fs::read_to_string(&path).ok().as_deref() == Some(content) {
        return Ok(());
    }
    if !fix {
        bail!("`{file}` is not what it is generated from: run `./x check --fix`");
    }
    fs::write(&path, content).with_context(|| format!("cannot write `{file}`"))
}
