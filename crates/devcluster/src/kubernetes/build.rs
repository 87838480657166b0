//! Builds Kubernetes from Debian's source package.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::{CONTROL_PLANE, NODE, VERSION, go_arch};
use crate::debian::{self, Scratch};
use crate::error::{Doing, Result};
use crate::process::logged;
use crate::report::Report;
use crate::{checksums, places};

/// Lines that `go build -v` prints for all programs together; only the progress bar depends on it.
const PACKAGES_TO_COMPILE: u64 = 2_160;

/// Builds all programs with Debian's Go. Nothing is visible under `place` before everything is done.
pub(super) fn build(place: &Path, report: &Report) -> Result<()> {
    debian::install_missing(debian::FOR_BUILDING, report)?;
    let scratch = Scratch::new("kubernetes")?;
    let step = report.step(format!(
        "Fetching the source of Kubernetes {VERSION} and Go from Debian"
    ));
    let packages = [
        "golang-1.19-go",
        "golang-1.19-src",
        "golang-github-modern-go-reflect2-dev",
    ];
    debian::unpack(&packages, scratch.path(), report)?;
    let source = debian::unpack_source("kubernetes", scratch.path(), report)?;
    replace_reflect2(&source, &scratch.path().join("root"))?;
    step.done("");

    let step = report.step(format!(
        "Building Kubernetes {VERSION} (once, about four minutes on two cores)"
    ));
    let mut compiled = 0;
    logged(&mut make(&source, scratch.path())?, report.log(), |line| {
        // With -v the compiler names each package it is done with, one a line.
        if line.contains('/') && !line.contains(' ') {
            compiled += 1;
            step.progress(compiled, PACKAGES_TO_COMPILE);
        }
    })?;
    step.done("");

    let next = scratch.path().join("next");
    places::make(&next)?;
    for name in CONTROL_PLANE.iter().chain(NODE) {
        let from = source
            .join("_output/local/bin/linux")
            .join(go_arch())
            .join(name);
        fs::copy(&from, next.join(name)).doing(|| format!("cannot copy `{}`", from.display()))?;
    }
    checksums::seal(&next)?;
    scratch.become_directory(&next, place)
}

fn make(source: &Path, scratch: &Path) -> Result<Command> {
    // The build insists on a GOPATH, so the tree has to appear at the right place inside one.
    let go_path = scratch.join("gopath");
    let parent = go_path.join("src/k8s.io");
    places::make(&parent)?;
    let tree = parent.join("kubernetes");
    symlink(source, &tree).doing(|| format!("cannot link `{}`", tree.display()))?;
    let go_root = scratch.join("root/usr/lib/go-1.19");
    let path = env::var("PATH").unwrap_or_default();
    let programs: Vec<String> = CONTROL_PLANE
        .iter()
        .chain(NODE)
        .map(|name| format!("cmd/{name}"))
        .collect();
    let mut command = Command::new("make");
    command
        .arg(format!("WHAT={}", programs.join(" ")))
        // Without the clouds of the time: a quarter of what is compiled, and nothing here is one of them.
        .arg("GOFLAGS=-v -tags=providerless")
        .arg("GOLDFLAGS=-s -w")
        .current_dir(&tree)
        .env("PWD", &tree)
        .env("PATH", format!("{}:{path}", go_root.join("bin").display()))
        .env("GOROOT", &go_root)
        .env("GOPATH", &go_path)
        .env("GOCACHE", scratch.join("gocache"))
        .env("GO111MODULE", "off")
        .env("CGO_ENABLED", "0")
        .env("KUBE_GIT_VERSION", VERSION)
        .env("KUBE_GIT_TREE_STATE", "archive");
    Ok(command)
}

/// The vendored reflect2 1.0.1 does not fit Go 1.18 and later: the API server would die in `mapiterinit`
/// when it answers in JSON. Debian's 1.0.2 does. The old files must go first, their names collide.
fn replace_reflect2(source: &Path, root: &Path) -> Result<()> {
    let vendored = source.join("vendor/github.com/modern-go/reflect2");
    let fixed = root.join("usr/share/gocode/src/github.com/modern-go/reflect2");
    let go_files = |directory: &Path| -> Result<Vec<PathBuf>> {
        let what = || format!("cannot read `{}`", directory.display());
        let paths = fs::read_dir(directory)
            .doing(what)?
            .flatten()
            .map(|entry| entry.path());
        Ok(paths
            .filter(|path| path.extension().is_some_and(|e| e == "go"))
            .collect())
    };
    for old in go_files(&vendored)? {
        fs::remove_file(&old).doing(|| format!("cannot remove `{}`", old.display()))?;
    }
    for new in go_files(&fixed)? {
        let to = vendored.join(new.file_name().unwrap_or_default());
        fs::copy(&new, &to).doing(|| format!("cannot copy `{}`", new.display()))?;
    }
    Ok(())
}
