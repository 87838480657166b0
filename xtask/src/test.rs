//! `./x test`: everything, on a cluster of its own that is gone afterwards; or what can run on the user's own, with a list of the rest.

mod left_out;
mod record;
mod tally;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, bail};
use devcluster::cluster::{Cluster, Wanted, check_machine};
use devcluster::kubernetes::{Kubernetes, kubectl_program};
use devcluster::process::{capture, logged};
use devcluster::report::{Report, took};
use devcluster::testing::{CLUSTER_VARIABLE, KUBECONFIG_VARIABLE};
use devcluster::{debian, schemas};

use self::record::{Record, Run};
use self::tally::Tally;
use crate::image::Binary;
use crate::workspace::{self, cargo, ignore_interrupts, say};
use crate::{check, image, previous};

/// The cluster of the tests: the user's own is not disturbed.
const CLUSTER: &str = "test";
const NODES: usize = 2;

/// All tests but those that run on it.
const PARTS: &[&str] = &["--workspace", "--exclude", "stowage-tests"];
/// Those that do. They leave much behind that runs until it is taken down, so they come last. Of the whole workspace, too:
/// of a part of it, cargo would build again what the parts have in common.
const END_TO_END: &[&str] = &["--workspace", "--test=any_cluster", "--test=dev_cluster"];

/// How many tests of one program run at a time, whatever the number of cores: they wait for servers and kubelets most of
/// their time.
const AT_A_TIME: usize = 6;
const AT_A_TIME_VARIABLE: &str = "RUST_TEST_THREADS";

/// Tests that upgrade from the release before this one, and go back.
const UPGRADES: &str = "dev_cluster::upgrade";

#[derive(clap::Args)]
pub struct Options {
    /// Leave the cluster of the tests up, for the next run or to look at.
    #[arg(long)]
    keep: bool,
    /// Keep what a whole run proved in `docs/runs`: `docs/coverage.md` shows it.
    #[arg(long)]
    record: bool,
    /// Leave out what `./x check` checks.
    #[arg(long)]
    no_check: bool,
    /// Passed to `cargo test`: package, test and name filters.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

pub fn run(options: &Options, report: &Report) -> anyhow::Result<ExitCode> {
    if !options.no_check {
        check::run(false, report)?;
    }
    debian::install_missing(debian::FOR_DRIVERS, report)?;
    debian::install_missing(debian::FOR_PAGES, report)?;
    schemas::ensure(report)?;
    match own_cluster()? {
        Some(kubeconfig) => {
            say(&format!("On the cluster of {}.", kubeconfig.display()));
            let archive = image::build(Binary::Release, report)?;
            say(&image::must_be_on_the_nodes(&archive));
            build_tests(options, report)?;
            let ran = tests(
                options,
                report,
                || Ok(Vec::new()),
                |command| {
                    let has_separator = command.get_args().any(|word| word == "--");
                    command.args((!has_separator).then_some("--"));
                    command.args(["--skip", "dev_cluster"]);
                },
            );
            say(&left_out::list(&workspace::root())?);
            ran?;
        }
        None => on_dev_cluster(options, report)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// `STOWAGE_KUBECONFIG`, if it is set and can be read.
pub fn own_cluster() -> anyhow::Result<Option<PathBuf>> {
    let Some(file) = env::var_os(KUBECONFIG_VARIABLE)
        .filter(|v| !v.is_empty())
        .map(PathBuf::from)
    else {
        return Ok(None);
    };
    std::fs::File::open(&file).with_context(|| {
        format!(
            "{KUBECONFIG_VARIABLE} is `{}`, which cannot be read: correct or unset it",
            file.display()
        )
    })?;
    Ok(Some(file))
}

fn on_dev_cluster(options: &Options, report: &Report) -> anyhow::Result<()> {
    // Before everything that takes long, although the cluster comes last.
    check_machine(NODES)?;
    let cluster = Cluster::named(CLUSTER)?;
    let program = env::current_exe().context("cannot find this program's own file")?;
    // From here on an interrupt must not skip the clean-up: the tests end by it, this process goes on.
    ignore_interrupts()?;
    let two_nodes = Wanted {
        nodes: Some(NODES),
        ..Wanted::default()
    };
    let upgrades = wants_upgrades(options);
    let has_previous = upgrades && previous::ensure_binary(report)?;
    let prepare = || -> anyhow::Result<Vec<&str>> {
        cluster.up(&two_nodes, &program, report)?;
        image::build(Binary::Debug, report)?;
        let archive = image::for_tests(report)?;
        image::load(CLUSTER, &archive, report)?;
        image::build_and_load_simulator(CLUSTER, report)?;
        if has_previous {
            previous::write_image(report)?;
        }
        let skips = upgrades && !has_previous;
        Ok(if skips {
            vec!["--skip", UPGRADES]
        } else {
            Vec::new()
        })
    };
    // The tests of single parts run their own API servers.
    let result = workspace::ensure_servers(report)
        .and_then(|()| build_tests(options, report))
        .and_then(|()| {
            tests(options, report, prepare, |command| {
                command
                    .env(CLUSTER_VARIABLE, CLUSTER)
                    .env("STOWAGE_X", &program);
            })
        });
    if result.is_err() {
        keep_logs(&cluster);
    }
    if options.keep {
        say(&format!(
            "The cluster stays: ./x kubectl --cluster {CLUSTER} ..., ./x down --cluster {CLUSTER}"
        ));
    } else {
        cluster.down(report)?;
    }
    // Clusters that single tests made for themselves are gone, unless the tests were killed.
    for left in Cluster::all()?
        .iter()
        .filter(|left| left.name().starts_with("test-"))
    {
        left.down(report)?;
    }
    result
}

/// What the user asks for replaces "everything".
fn wanted(options: &Options) -> Vec<String> {
    match options.cargo.as_slice() {
        [] => vec!["--workspace".to_owned()],
        some => some.to_vec(),
    }
}

fn build_tests(options: &Options, report: &Report) -> anyhow::Result<()> {
    let wanted = wanted(options);
    let packages = wanted.iter().take_while(|argument| *argument != "--");
    let mut command = cargo("test");
    command.arg("--no-run").args(packages);
    workspace::step(report, "Building the tests", &mut command)
}

/// Whether tests are asked for that need the release before this one.
fn wants_upgrades(options: &Options) -> bool {
    let name = UPGRADES.rsplit("::").next().unwrap_or_default();
    options.cargo.is_empty() || options.cargo.iter().any(|word| word.contains(name))
}

/// Runs the tests; `prepare` makes what those need that run on a cluster, and returns arguments that leave some of them out. Those of a whole run that fail are tried once more,
/// with little beside them, and are told either way.
fn tests(
    options: &Options,
    report: &Report,
    prepare: impl FnOnce() -> anyhow::Result<Vec<&'static str>>,
    adapt: impl Fn(&mut Command),
) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut first = Tally::default();
    let mut record = Record::default();
    let mut read = |line: &str| {
        first.read(line);
        record.read(line);
    };
    let mut outcome = Ok(());
    if options.cargo.is_empty() {
        outcome = run_tests(PARTS, report, &adapt, &mut read);
    }
    let skipped = prepare()?;
    let mut last: Vec<_> = match options.cargo.as_slice() {
        [] => END_TO_END.to_vec(),
        some => words(some),
    };
    if !skipped.is_empty() {
        let separator = (!last.contains(&"--")).then_some("--");
        last.extend(separator.into_iter().chain(skipped));
    }
    outcome = outcome.and(run_tests(&last, report, &adapt, &mut read));
    let Err(error) = outcome else {
        let took = took(started.elapsed());
        report.say(&format!(
            "ok  Running the tests: {} passed ({took})",
            first.passed
        ));
        return keep(options, &record);
    };
    let (passed, failed) = (first.passed, first.failed.join(", "));
    if first.failed.is_empty() {
        return Err(error).context(format!("the tests ended early, after {passed} had passed"));
    }
    let failure = format!(
        "{passed} tests passed and {} failed: {failed}",
        first.failed.len()
    );
    if !options.cargo.is_empty() || !first.is_worth_another_try() {
        bail!(failure);
    }
    report.say(&format!("... Trying again: {failed}"));
    let mut second = Tally::default();
    let again = [&["--workspace", "--", "--exact"], &words(&first.failed)[..]].concat();
    let outcome = run_tests(&again, report, &adapt, |line| second.read(line));
    outcome.context(failure)?;
    report.say(&format!(
        "ok  Running the tests: {passed} passed, and {} only when tried again: {failed} ({}). That is a fault of theirs.",
        second.passed,
        took(started.elapsed())
    ));
    Ok(())
}

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn run_tests(
    wanted: &[&str],
    report: &Report,
    adapt: impl Fn(&mut Command),
    mut read: impl FnMut(&str),
) -> devcluster::error::Result<()> {
    // No bar: cargo's own lines are what one wants to see.
    report.say("... Running the tests");
    let mut command = cargo("test");
    command.arg("--no-fail-fast").args(wanted);
    if env::var_os(AT_A_TIME_VARIABLE).is_none() {
        command.env(AT_A_TIME_VARIABLE, AT_A_TIME.to_string());
    }
    adapt(&mut command);
    logged(&mut command, report.log(), |line| {
        say(line);
        read(line);
    })
}

/// With `--record`, writes down what a whole run without a failure has proven, and on what.
fn keep(options: &Options, record: &Record) -> anyhow::Result<()> {
    if !options.record || !options.cargo.is_empty() {
        return Ok(());
    }
    let version = match own_cluster()? {
        Some(kubeconfig) => version_of(&kubeconfig)?,
        None => Kubernetes::already_there()?.version().to_owned(),
    };
    let commit = capture(
        Command::new("git")
            .args(["rev-parse", "--short", "HEAD"])
            .current_dir(workspace::root()),
    )?;
    let date = capture(Command::new("date").args(["--utc", "+%Y-%m-%d"]))?;
    let run = Run {
        kubernetes: &version,
        date: date.trim(),
        commit: commit.trim(),
    };
    let directory = workspace::root().join("docs/runs");
    std::fs::create_dir_all(&directory)?;
    let file = directory.join(format!("{version}.txt"));
    std::fs::write(&file, record.text(&run))?;
    say(&format!(
        "Recorded in {}: `./x check --fix` writes it into docs/coverage.md.",
        file.display()
    ));
    Ok(())
}

/// As the server of a person's own cluster says it.
fn version_of(kubeconfig: &Path) -> anyhow::Result<String> {
    let mut kubectl = Command::new(kubectl_program());
    let said = capture(
        kubectl
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["get", "--raw", "/version"]),
    )?;
    let version: serde_json::Value = serde_json::from_str(&said)?;
    Ok(version["gitVersion"]
        .as_str()
        .context("the server does not tell its version")?
        .to_owned())
}

/// What the daemons said, out of the way of the clean-up.
fn keep_logs(cluster: &Cluster) {
    let to = workspace::target().join("test-logs");
    let _ = std::fs::remove_dir_all(&to);
    copy_logs(cluster.directory(), &to);
    say(&format!("Logs of the cluster: {}", to.display()));
}

fn copy_logs(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let path = entry.path();
        // Containers' own files are too many and say too little.
        let skipped = ["lib", "tmp", "etcd", "pki"]
            .iter()
            .any(|name| entry.file_name() == *name);
        if path.is_dir() && !skipped {
            copy_logs(&path, &to.join(entry.file_name()));
        } else if path.extension().is_some_and(|e| e == "log") {
            let _ = std::fs::create_dir_all(to);
            let _ = std::fs::copy(&path, to.join(entry.file_name()));
        }
    }
}
