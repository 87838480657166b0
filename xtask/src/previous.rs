//! The release before this one, for tests that upgrade from it and go back: built from its commit in a quick profile, once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use devcluster::places;
use devcluster::process::{capture, logged};
use devcluster::report::Report;

use crate::image;
use crate::workspace::{self, say};

/// Its commit.
const COMMIT: &str = include_str!("../../release/previous");

/// What its binary is called while it is built: beside ours, with which it shares everything that is not our own code.
const BINARY: &str = "stowage-previous";

/// Its image, as tests name it.
pub const IMAGE: &str = "stowage.dev/stowage:previous";

/// Its version: to cargo packages of one name and version are the same, wherever they are, and what is built of the one would be taken
/// for the other.
const VERSION: &str = "0.0.9";

/// Makes sure of its binary. A clone without its history has no such release: that is told, and `false`.
pub fn ensure_binary(report: &Report) -> anyhow::Result<bool> {
    let commit = COMMIT.trim();
    let known = git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]).is_ok();
    if !known {
        say(&format!(
            "This clone does not have commit {commit}: what upgrades from the release before this one is left out. `git fetch --unshallow` brings it."
        ));
        return Ok(false);
    }
    let place = place();
    if !place.join(BINARY).exists() {
        build(commit, &place, report)?;
    }
    Ok(true)
}

/// Whether its binary is there.
pub fn is_there() -> bool {
    place().join(BINARY).exists()
}

/// Writes its image.
pub fn write_image(report: &Report) -> anyhow::Result<()> {
    image::write_with(IMAGE, &place().join(BINARY), report)?;
    Ok(())
}

/// Where its binary is kept.
fn place() -> PathBuf {
    places::cache().join(format!("previous-{}", COMMIT.trim()))
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    Ok(capture(
        Command::new("git")
            .args(arguments)
            .current_dir(workspace::root()),
    )?)
}

/// Nothing is visible at its place before it is whole.
fn build(commit: &str, place: &Path, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Building the release before this one");
    let source = places::cache().join("previous-source");
    places::remove(&source)?;
    places::make(&source)?;
    let archive = source.join("source.tar");
    git(&[
        "archive",
        "--output",
        &archive.display().to_string(),
        commit,
    ])?;
    capture(
        Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(&source),
    )?;
    rename_binary(&source)?;
    set_version(&source)?;
    let mut cargo = Command::new("cargo");
    cargo
        // Not locked: the version is another one. The rest of its lock file stays as it is.
        .args(["build", "--package", "stowage", "--bin", BINARY])
        .args(["--package", "devcluster"])
        // As our own: what both need is built once.
        .args(["--features", "tokio/test-util"])
        .env("CARGO_TARGET_DIR", workspace::target())
        .current_dir(&source);
    logged(&mut cargo, report.log(), |_| ())?;
    places::make(place)?;
    let built = workspace::target().join("debug").join(BINARY);
    let mut strip = Command::new("strip");
    capture(strip.arg("-o").arg(place.join("next")).arg(&built))?;
    fs::rename(place.join("next"), place.join(BINARY))?;
    fs::remove_file(&built)?;
    places::remove(&source)?;
    step.done("");
    Ok(())
}

/// Two programs of one name would take each other's place.
fn rename_binary(source: &Path) -> anyhow::Result<()> {
    let manifest: PathBuf = source.join("crates/cli/Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read `{}`", manifest.display()))?;
    let named = format!("{text}\n[[bin]]\nname = \"{BINARY}\"\npath = \"src/main.rs\"\n");
    fs::write(
        &manifest,
        named.replacen("[package]\n", "[package]\nautobins = false\n", 1),
    )?;
    Ok(())
}

fn set_version(source: &Path) -> anyhow::Result<()> {
    let manifest = source.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read `{}`", manifest.display()))?;
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let version = lines.iter_mut().find(|line| line.starts_with("version = "));
    let version = version.context("the release before this one has no version")?;
    *version = format!("version = \"{VERSION}\"");
    fs::write(&manifest, lines.join("\n") + "\n")?;
    Ok(())
}
