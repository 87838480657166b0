//! cargo-nextest: found on the machine, else built once; and one run of it.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use devcluster::places;
use devcluster::process::{capture, logged};
use devcluster::report::Report;
use serde_json::Value;

use super::results::{Results, Test};
use crate::workspace::{self, say};

/// What is built where none is: known to fit `.config/nextest.toml`.
const VERSION: &str = "0.9.143";

/// Crates whose documentation has examples; the others say that they have none.
const WITH_EXAMPLES: [&str; 3] = ["stowage-kubernetes", "stowage-service", "stowage-sidecar"];

/// Makes sure of it.
pub fn ensure(report: &Report) -> anyhow::Result<()> {
    let known = Command::new("cargo")
        .args(["nextest", "--version"])
        .output();
    if known.is_ok_and(|output| output.status.success()) || ours().exists() {
        return Ok(());
    }
    let step = report.step("Building cargo-nextest (once, some minutes)");
    let mut install = Command::new("cargo");
    install
        .args(["install", "cargo-nextest", "--locked", "--version", VERSION])
        // Its own profile sees the whole as one piece: it would take three times as long.
        .args(["--config", "profile.release.lto=false"])
        .arg("--root")
        .arg(root());
    logged(&mut install, report.log(), |_| ()).context(
        "cargo-nextest could not be built: install it (`cargo install cargo-nextest --locked`), then run again",
    )?;
    step.done("");
    Ok(())
}

fn root() -> PathBuf {
    places::cache().join(format!("nextest-{VERSION}"))
}

fn ours() -> PathBuf {
    root().join("bin/cargo-nextest")
}

/// `cargo nextest <verb>`, on the workspace.
pub fn command(verb: &str) -> anyhow::Result<Command> {
    let mut command = Command::new("cargo");
    command
        .args(["nextest", verb, "--locked"])
        .current_dir(workspace::root());
    // Behind what the machine has.
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain([root().join("bin")]);
    let path: OsString = env::join_paths(places)?;
    command.env("PATH", path);
    Ok(command)
}

/// Which tests are to run: what a person types, and what we leave out.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Packages, programs and names, as nextest takes them. Empty: everything.
    pub words: Vec<String>,
    /// Conditions of its filter language that all have to hold.
    pub conditions: Vec<String>,
}

impl Selection {
    /// What a person types. Conditions are taken out: nextest would run what fits any of them.
    pub fn of(words: &[String]) -> Self {
        let mut selection = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let condition = match word.as_str() {
                "-E" | "--filterset" => words.next(),
                _ => None,
            };
            match condition {
                Some(condition) => selection.conditions.push(format!("({condition})")),
                None => selection.words.push(word.clone()),
            }
        }
        selection
    }

    /// The part of it for which this holds as well.
    pub fn and(&self, condition: &str) -> Self {
        let mut part = self.clone();
        part.conditions.push(condition.to_owned());
        part
    }

    fn apply(&self, command: &mut Command) {
        if !self.words.iter().any(|word| names_a_package(word)) {
            command.arg("--workspace");
        }
        if !self.conditions.is_empty() {
            command.args(["-E", &self.conditions.join(" & ")]);
        }
        command.args(&self.words);
    }
}

fn names_a_package(word: &str) -> bool {
    ["-p", "--package", "--workspace", "--all"].contains(&word) || word.starts_with("--package=")
}

/// What a selection comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Tests that are going to run, `program name`.
    pub chosen: BTreeSet<String>,
    /// Those of the same packages that are not.
    pub skipped: usize,
}

impl Listed {
    /// Builds the tests, and asks their programs.
    pub fn of(selection: &Selection, report: &Report) -> anyhow::Result<Self> {
        let mut build = command("run")?;
        selection.apply(&mut build);
        workspace::step(report, "Building the tests", build.arg("--no-run"))?;
        let mut list = command("list")?;
        selection.apply(&mut list);
        list.args(["--message-format", "json"]);
        Self::parse(&capture(&mut list)?)
    }

    fn parse(said: &str) -> anyhow::Result<Self> {
        let said: Value = serde_json::from_str(said).context("nextest's list is not JSON")?;
        let suites = said["rust-suites"].as_object();
        let suites = suites.context("nextest's list has no programs")?;
        let mut listed = Self::default();
        for (program, suite) in suites {
            for (name, test) in suite["testcases"].as_object().into_iter().flatten() {
                let is_chosen = test["filter-match"]["status"] == "matches";
                if is_chosen && test["ignored"] != true {
                    listed.chosen.insert(format!("{program} {name}"));
                } else {
                    listed.skipped += 1;
                }
            }
        }
        Ok(listed)
    }

    pub fn has(&self, begin: &str) -> bool {
        self.chosen.iter().any(|test| test.starts_with(begin))
    }
}

/// Runs tests; what they say is shown. Fails only if they could not be run. What fails is tried so many times again.
pub fn run(
    selection: &Selection,
    retries: usize,
    report: &Report,
    adapt: impl Fn(&mut Command),
) -> anyhow::Result<Results> {
    let junit = workspace::target().join("nextest/default/junit.xml");
    drop(std::fs::remove_file(&junit));
    let mut command = command("run")?;
    selection.apply(&mut command);
    command.args(["--no-tests", "pass", "--retries", &retries.to_string()]);
    adapt(&mut command);
    let outcome = logged(&mut command, report.log(), say);
    let mut results = Results::default();
    // None where nothing was run, or nothing could be.
    if let Ok(text) = std::fs::read_to_string(&junit) {
        results.read(&text)?;
    }
    // Whoever was interrupted has written down what passed until then.
    let passed = results.passed();
    let early = || format!("the tests ended early, after {passed} had passed");
    if workspace::is_interrupted() {
        bail!(early());
    }
    if results.failed().is_empty() {
        outcome.with_context(early)?;
    }
    Ok(results)
}

/// Examples in the documentation, which nextest does not know.
pub fn examples(report: &Report) -> anyhow::Result<Results> {
    let mut command = workspace::cargo("test");
    command.arg("--doc");
    for package in WITH_EXAMPLES {
        command.args(["--package", package]);
    }
    let mut results = Results::default();
    let outcome = logged(&mut command, report.log(), |line| {
        results.tests.extend(example(line));
    });
    if results.failed().is_empty() {
        outcome.context("the examples in the documentation could not be run")?;
    }
    Ok(results)
}

/// A line such as `test crates/service/src/lib.rs - (line 5) - compile ... ok`.
fn example(line: &str) -> Option<Test> {
    let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some(Test {
        program: "examples".to_owned(),
        name: name.to_owned(),
        took: Duration::ZERO,
        passed: end == "ok",
        wavered: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_tells_what_runs_and_how_much_does_not() {
        let listed = Listed::parse(
            r#"{"rust-suites": {"stowage-tests::dev_cluster": {"testcases": {
                "dev_cluster::a": {"ignored": false, "filter-match": {"status": "matches"}},
                "dev_cluster::b": {"ignored": false, "filter-match": {"status": "mismatch", "reason": "expression"}},
                "dev_cluster::c": {"ignored": true, "filter-match": {"status": "matches"}}}}}}"#,
        )
        .unwrap();
        assert_eq!((listed.chosen.len(), listed.skipped), (1, 2));
        assert!(listed.has("stowage-tests::") && !listed.has("stowage-weka"));
    }

    #[test]
    fn a_condition_that_a_person_types_narrows_ours() {
        let words = ["-p", "x", "-E", "test(a) + test(b)"].map(str::to_owned);
        let selection = Selection::of(&words);
        assert_eq!(selection.words, ["-p", "x"]);
        assert_eq!(selection.conditions, ["(test(a) + test(b))"]);
    }

    #[test]
    fn everything_is_asked_for_unless_a_package_is_named() {
        let words = |words: &[&str]| {
            let selection = Selection {
                words: words.iter().map(|word| (*word).to_owned()).collect(),
                conditions: vec!["a".to_owned(), "b".to_owned()],
            };
            let mut command = Command::new("x");
            selection.apply(&mut command);
            let words = command
                .get_args()
                .map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(&["drain"]), "--workspace -E a & b drain");
        assert_eq!(words(&["-p", "x"]), "-E a & b -p x");
    }
}
