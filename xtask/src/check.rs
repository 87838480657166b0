//! Format, rules, lints, generated files: what must be right before a test is worth running.
//!
//! | file | the rule |
//! |---|---|
//! | [`imports`] | one style of `use` |
//! | [`sizes`] | no file and no function is too long |
//! | [`dependencies`] | what is in a `Cargo.toml` is used |
//! | [`house`] | crates use each other as `ARCHITECTURE.md` says |
//! | [`deny`] | licences, versions and sources of what we depend on |
//! | [`documented`] | commands of the guides are run by a test, or say why not |
//! | [`coverage`] | what is said to work names tests that exist |
//! | [`generated`] | what a program writes is as it would write it |
//!
//! Lints are clippy's, with what is banned in `clippy.toml`. A rule is a pure function from what was read to findings.

mod charts;
mod coverage;
mod deny;
mod dependencies;
mod documented;
mod finding;
pub mod generated;
mod house;
mod imports;
mod metadata;
mod sizes;
mod sources;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use devcluster::process::logged;
use devcluster::report::Report;

use self::deny::Deny;
use self::metadata::{Metadata, Package};
use crate::workspace::{self, cargo, say};

pub fn run(fix: bool, report: &Report) -> anyhow::Result<()> {
    if fix {
        mend_imports()?;
    }
    without_compiler(fix, report)?;
    lints(report)?;
    generated::check(fix, report)
}

/// What takes seconds, so that it is said first.
pub fn without_compiler(fix: bool, report: &Report) -> anyhow::Result<()> {
    format(fix, report)?;
    rules(report)
}

/// Everything that needs no compiler.
fn rules(report: &Report) -> anyhow::Result<()> {
    let step = report.step("Checking the rules of the house");
    let root = workspace::root().canonicalize()?;
    let (deny, metadata) = what_is_built(&root)?;
    let members: Vec<&Package> = metadata.members().collect();
    let mut findings = deny.check(&metadata);
    findings.extend(house::check(&read(&root, house::FILE)?, metadata.members()));
    findings.extend(dependencies::check_workspace(
        &read(&root, "Cargo.toml")?,
        &members,
    )?);
    for package in members {
        let sources = sources::read(&root, package.directory())?;
        findings.extend(dependencies::check(&root, package, &sources));
        let crates = package.crates();
        for source in &sources {
            findings.extend(imports::check(source, &crates));
            findings.extend(sizes::check(source));
        }
    }
    findings.extend(documented::check_all(&root)?);
    let coverage = read(&root, coverage::FILE)?;
    findings.extend(coverage::check(&coverage, |path| root.join(path).exists()));
    if findings.is_empty() {
        step.done("");
        return Ok(());
    }
    drop(step);
    for finding in &findings {
        say(&finding.to_string());
    }
    bail!(
        "{} places break a rule (`./x check --fix` mends imports)",
        findings.len()
    );
}

fn mend_imports() -> anyhow::Result<()> {
    let root = workspace::root().canonicalize()?;
    for package in what_is_built(&root)?.1.members() {
        let crates = package.crates();
        for source in sources::read(&root, package.directory())? {
            if let Some(text) = imports::mended(&source, &crates) {
                let file = root.join(&source.path);
                fs::write(&file, text)
                    .with_context(|| format!("cannot write `{}`", file.display()))?;
            }
        }
    }
    Ok(())
}

/// For the platforms of `deny.toml`: cargo would fetch what others need.
fn what_is_built(root: &Path) -> anyhow::Result<(Deny, Metadata)> {
    let deny = Deny::parse(&read(root, deny::FILE)?)?;
    let metadata = Metadata::read(deny.targets())?;
    Ok((deny, metadata))
}

fn read(root: &Path, file: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read `{file}`"))
}

fn format(fix: bool, report: &Report) -> anyhow::Result<()> {
    let mut command = cargo("fmt");
    command.arg("--all");
    if !fix {
        command.arg("--check");
    }
    let step = report.step("Checking the format");
    if logged(&mut command, report.log(), |_| ()).is_err() {
        bail!("some files are not formatted: run `./x check --fix`");
    }
    step.done("");
    Ok(())
}

pub fn lints(report: &Report) -> anyhow::Result<()> {
    let known = Command::new("cargo").args(["clippy", "--version"]).output();
    if !known.is_ok_and(|output| output.status.success()) {
        bail!(
            "cargo has no `clippy` here: install it with the toolchain (`rustup component add clippy`)"
        );
    }
    let mut command = cargo("clippy");
    command.args(["--workspace", "--all-targets", "--", "--deny", "warnings"]);
    workspace::step(report, "Checking the lints", &mut command)?;
    // Tests and demos have simulators; what is shipped has none.
    let mut shipped = cargo("clippy");
    shipped.args(["--package", "stowage", "--no-default-features"]);
    // With the features that the whole workspace has, so that nothing but itself is looked at again.
    shipped.args(workspace::AS_IN_TESTS);
    shipped.args(["--package", "stowage-sim", "--features", "tokio/test-util"]);
    shipped.args(["--", "--deny", "warnings"]);
    workspace::step(
        report,
        "Checking the lints of what is shipped",
        &mut shipped,
    )
}
