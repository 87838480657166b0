//! Files that a program of ours writes, and that are committed so that people can read and apply them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use devcluster::process::capture;
use devcluster::report::Report;

use crate::workspace::{self, cargo};

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
    let mut build = cargo("build");
    build.args(["--package", "stowage"]);
    workspace::step(report, "Building stowage", &mut build)?;
    let step = report.step("Checking generated files");
    let program = workspace::target().join("debug/stowage");
    let mut stale: Vec<PathBuf> = Vec::new();
    for (file, arguments) in GENERATED {
        let content = capture(Command::new(&program).args(*arguments))?;
        let path = workspace::root().join(file);
        if fs::read_to_string(&path).ok().as_deref() == Some(&content) {
            continue;
        }
        if fix {
            fs::write(&path, content).with_context(|| format!("cannot write `{file}`"))?;
        } else {
            stale.push(PathBuf::from(file));
        }
    }
    if let Some(file) = stale.first() {
        bail!(
            "`{}` is not what the code generates: run `./x check --fix`",
            file.display()
        );
    }
    step.done("");
    Ok(())
}
