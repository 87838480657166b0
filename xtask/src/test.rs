//! `./x test`: everything, on a cluster of its own that is gone afterwards; or what can run on the user's own, with a list of the rest.

mod left_out;
mod tally;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, thread};

use anyhow::{Context, bail};
use devcluster::cluster::Cluster;
use devcluster::debian;
use devcluster::process::logged;
use devcluster::report::{Report, took};
use devcluster::testing::{CLUSTER_VARIABLE, KUBECONFIG_VARIABLE};

use self::tally::Tally;
use crate::workspace::{self, cargo, ignore_interrupts, say};
use crate::{check, image};

/// The cluster of the tests: the user's own is not disturbed.
const CLUSTER: &str = "test";

/// How many tests of one program run at a time, whatever the number of cores: they wait for servers and kubelets most of
/// their time.
const AT_A_TIME: usize = 6;
const AT_A_TIME_VARIABLE: &str = "RUST_TEST_THREADS";

#[derive(clap::Args)]
pub struct Options {
    /// Leave the cluster of the tests up, for the next run or to look at.
    #[arg(long)]
    keep: bool,
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
    match own_cluster()? {
        Some(kubeconfig) => {
            say(&format!("On the cluster of {}.", kubeconfig.display()));
            let archive = image::build(report)?;
            say(&image::must_be_on_the_nodes(&archive));
            build_tests(options, report)?;
            let ran = tests(options, report, |command| {
                let has_separator = command.get_args().any(|word| word == "--");
                command.args((!has_separator).then_some("--"));
                command.args(["--skip", "dev_cluster"]);
            });
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
    let cluster = Cluster::named(CLUSTER)?;
    let program = env::current_exe().context("cannot find this program's own file")?;
    // From here on an interrupt must not skip the clean-up: the tests end by it, this process goes on.
    ignore_interrupts()?;
    let result = cluster
        .up(Some(2), &program, report)
        .map_err(anyhow::Error::from)
        .and_then(|_| build_image_and_tests(options, report))
        .and_then(|_| image::for_tests(report))
        .and_then(|archive| image::load(CLUSTER, &archive, report))
        .and_then(|_| load_simulator(options, report))
        .and_then(|()| {
            tests(options, report, |command| {
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

/// At the same time: linking what is shipped takes minutes, on one core.
fn build_image_and_tests(options: &Options, report: &Report) -> anyhow::Result<PathBuf> {
    thread::scope(|scope| {
        let tests = scope.spawn(|| build_tests(options, report));
        let archive = image::build(report)?;
        match tests.join() {
            Ok(built) => built.map(|()| archive),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
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

/// The simulators are in the binary that everything's tests have built.
fn load_simulator(options: &Options, report: &Report) -> anyhow::Result<()> {
    if options.cargo.is_empty() {
        image::load_simulator(CLUSTER, report)
    } else {
        image::build_and_load_simulator(CLUSTER, report)
    }
}

/// Runs the tests. Those of a whole run that fail are tried once more, with little beside them, and are told either way.
fn tests(options: &Options, report: &Report, adapt: impl Fn(&mut Command)) -> anyhow::Result<()> {
    // No bar: cargo's own lines are what one wants to see.
    report.say("... Running the tests");
    let started = Instant::now();
    let (outcome, first) = run_tests(&wanted(options), report, &adapt);
    let Err(error) = outcome else {
        let took = took(started.elapsed());
        report.say(&format!(
            "ok  Running the tests: {} passed ({took})",
            first.passed
        ));
        return Ok(());
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
    let (outcome, second) = run_tests(&only(&first.failed), report, &adapt);
    outcome.context(failure)?;
    report.say(&format!(
        "ok  Running the tests: {passed} passed, and {} only when tried again: {failed} ({}). That is a fault of theirs.",
        second.passed,
        took(started.elapsed())
    ));
    Ok(())
}

/// What makes cargo run these tests of the workspace and no others.
fn only(names: &[String]) -> Vec<String> {
    let words = ["--workspace", "--", "--exact"].map(str::to_owned);
    words.into_iter().chain(names.iter().cloned()).collect()
}

fn run_tests(
    wanted: &[String],
    report: &Report,
    adapt: impl Fn(&mut Command),
) -> (devcluster::error::Result<()>, Tally) {
    let mut command = cargo("test");
    command.arg("--no-fail-fast").args(wanted);
    if env::var_os(AT_A_TIME_VARIABLE).is_none() {
        command.env(AT_A_TIME_VARIABLE, AT_A_TIME.to_string());
    }
    adapt(&mut command);
    let mut tally = Tally::default();
    let outcome = logged(&mut command, report.log(), |line| {
        say(line);
        tally.read(line);
    });
    (outcome, tally)
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
