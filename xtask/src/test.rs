//! `./x test`: everything, on a cluster of its own that is gone afterwards; or a part of it; or what can run on the user's own
//! cluster, with a list of the rest.

mod ground;
mod left_out;
mod nextest;
mod profile;
mod record;
mod repeat;
mod results;
mod servers;
mod since;

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use devcluster::cluster::check_machine;
use devcluster::kubernetes::{Kubernetes, kubectl_program};
use devcluster::places;
use devcluster::process::capture;
use devcluster::report::Report;
use devcluster::testing::KUBECONFIG_VARIABLE;

use self::nextest::Selection;
use self::profile::Profile;
use self::record::Run;
use self::repeat::{Load, Wavering};
use self::results::Results;
use self::servers::Servers;
use self::since::Touched;
use crate::check;
use crate::workspace::{self, ignore_interrupts, say};

/// The cluster of the tests: the user's own is not disturbed.
const CLUSTER: &str = "test";
const NODES: usize = 2;

/// Tests that need it.
const WITH_PODS: &str = "stowage-tests::";
/// Those that need the release before this one.
const UPGRADES: &str = "stowage-tests::dev_cluster dev_cluster::upgrade";

/// Tests beside the code, but for those of one module, which talk to an API server.
const UNIT: &str =
    "(kind(lib) + kind(bin)) - (package(stowage-sidecar) & test(/^attach::tests::/))";

#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags that people type")]
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
    /// Only what needs no server: what one runs while one works.
    #[arg(long, conflicts_with_all = ["record", "keep"])]
    unit: bool,
    /// Checks, and the tests of the crates that a change since REV can touch; without pods.
    #[arg(long, value_name = "REV", num_args = 0..=1, default_missing_value = "HEAD", conflicts_with_all = ["record", "unit"])]
    since: Option<String>,
    /// Run the tests N times with every core busy, and tell which of them waver.
    #[arg(long, value_name = "N", conflicts_with = "record")]
    repeat: Option<usize>,
    /// Which tests, as `cargo nextest run` takes it: package, program and name filters.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "FILTER"
    )]
    filters: Vec<String>,
}

/// A run under way.
struct Tests<'a> {
    options: &'a Options,
    report: &'a Report,
    /// This program's own file; asked for before cargo puts another one in its place.
    program: PathBuf,
    profile: Profile,
    selection: Selection,
    /// Why tests were left out, and how many.
    left_out: BTreeMap<String, usize>,
}

pub fn run(options: &Options, report: &Report) -> anyhow::Result<ExitCode> {
    let own = own_cluster()?;
    // Before everything that takes long: it is said within seconds what is missing.
    let lacks = match check_machine(NODES) {
        Err(error) if own.is_none() && !options.unit => Some(error),
        _ => None,
    };
    let is_root = nix::unistd::geteuid().is_root();
    if let Some(error) = lacks.filter(|_| is_root) {
        return Err(error.into());
    }
    let mut tests = Tests {
        options,
        report,
        program: env::current_exe().context("cannot find this program's own file")?,
        profile: Profile::start(),
        selection: Selection::of(&options.filters),
        left_out: BTreeMap::new(),
    };
    tests.select(own.is_some(), is_root)?;
    tests.check()?;
    let results = if options.unit {
        tests.without_servers()?
    } else {
        tests.with_servers(own.as_deref())?
    };
    tests.conclude(&results, own.is_some())
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

impl Tests<'_> {
    /// Whether everything is asked for.
    fn is_whole(&self) -> bool {
        let options = self.options;
        options.filters.is_empty() && options.since.is_none() && !options.unit
    }

    /// What is left out before anything is built.
    fn select(&mut self, on_own_cluster: bool, is_root: bool) -> anyhow::Result<()> {
        let conditions = &mut self.selection.conditions;
        if self.options.unit {
            conditions.push(UNIT.to_owned());
            self.selection
                .words
                .extend(["--lib".to_owned(), "--bins".to_owned()]);
            return Ok(());
        }
        if on_own_cluster {
            conditions.push("not binary(dev_cluster)".to_owned());
        } else if !is_root {
            conditions.push("not package(stowage-tests)".to_owned());
            say("Not root: what makes namespaces and mounts is left out, and counted at the end.");
        }
        if let Some(revision) = &self.options.since {
            let touched = since::touched(revision)?;
            conditions.push("not package(stowage-tests)".to_owned());
            conditions.extend(touched.condition());
            match touched {
                Touched::Everything(file) => say(&format!(
                    "Since {revision} `{file}` has changed, which tests of any crate may read: all of them run, without pods."
                )),
                Touched::Nothing => say(&format!(
                    "Since {revision} nothing has changed that a test reads."
                )),
                Touched::Crates(names) => say(&format!(
                    "Since {revision}: {} and what uses them, without pods.",
                    names.join(", ")
                )),
            }
        }
        Ok(())
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.options.no_check || self.options.unit || self.options.repeat.is_some() {
            return Ok(());
        }
        self.profile.stage("Format and rules", || {
            check::without_compiler(false, self.report)
        })
    }

    fn without_servers(&mut self) -> anyhow::Result<Results> {
        self.profile
            .stage("cargo-nextest", || nextest::ensure(self.report))?;
        self.play(&self.selection, |_| {})
    }

    fn with_servers(&mut self, own: Option<&Path>) -> anyhow::Result<Results> {
        // From here on an interrupt must not skip the clean-up: the tests end by it, this process goes on.
        ignore_interrupts()?;
        // Of the run before; both parts of this one add to them.
        places::remove(&servers::logs())?;
        let listed = self.set_up()?;
        if listed.chosen.is_empty() && self.options.since.is_none() {
            bail!("no test is called so: {}", self.options.filters.join(" "));
        }
        let with_pods = listed.has(WITH_PODS);
        let mut results = match own {
            Some(kubeconfig) if with_pods => self.on_own_cluster(kubeconfig),
            None if with_pods => self.parts_and_dev_cluster(&listed),
            _ => self.play(&self.selection, |_| {}),
        }?;
        if self.is_whole() && self.options.repeat.is_none() {
            let examples = || nextest::examples(self.report);
            let examples = self
                .profile
                .stage("Examples in the documentation", examples)?;
            results.tests.extend(examples.tests);
        }
        Ok(results)
    }

    /// Runs tests, as often as they are asked for; what they share is new each time.
    fn play(&self, selection: &Selection, adapt: impl Fn(&mut Command)) -> anyhow::Result<Results> {
        let run = |retries| {
            let servers = (!self.options.unit).then(Servers::start).transpose()?;
            let share = |command: &mut Command| {
                adapt(command);
                if let Some(servers) = &servers {
                    servers.share(command);
                }
            };
            // No bar: nextest's own lines are what one wants to see.
            self.report.say("... Running the tests");
            let run = || nextest::run(selection, retries, self.report, share);
            let mut results = self.profile.stage("The tests", run)?;
            if let Some(servers) = &servers {
                results.leave_out(servers.left_out());
            }
            anyhow::Ok(results)
        };
        let Some(rounds) = self.options.repeat else {
            return run(1);
        };
        let _load = Load::on_every_core();
        let (mut all, mut wavering) = (Results::default(), Wavering::default());
        for round in 1..=rounds {
            say(&format!("Round {round} of {rounds}, with every core busy"));
            let results = run(0)?;
            wavering.add(&results);
            all.add(results);
        }
        say(&wavering.told());
        Ok(all)
    }

    /// The profile, what was left out and why, and how it ended; that is the last line.
    fn conclude(mut self, results: &Results, on_own_cluster: bool) -> anyhow::Result<ExitCode> {
        let passed = results.passed();
        let failed = results.failed();
        say(&self.profile.conclude(results)?);
        if on_own_cluster {
            let list = left_out::list(&workspace::root())?;
            say(&list.text);
            self.left_out
                .insert("needs a dev cluster".to_owned(), list.count);
        }
        for (reason, count) in &results.left_out {
            *self.left_out.entry(reason.clone()).or_default() += count;
        }
        for (reason, count) in &self.left_out {
            say(&format!("Left out: {count} tests: {reason}"));
        }
        for test in results.wavered() {
            say(&format!(
                "Passed only when tried again, which is a fault of the test: {test}"
            ));
        }
        for test in &failed {
            say(&format!("Failed: {test}"));
        }
        if failed.is_empty() {
            self.keep(results)?;
        } else {
            say(&format!(
                "Logs of the API servers that tests were lent: {}",
                servers::logs().display()
            ));
        }
        let skipped: usize = self.left_out.values().sum();
        say(&format!(
            "{passed} passed, {} failed, {skipped} skipped",
            failed.len()
        ));
        Ok(if failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// With `--record`, writes down what a whole run without a failure has proven, and on what.
    fn keep(&self, results: &Results) -> anyhow::Result<()> {
        if !self.options.record || !self.is_whole() {
            return Ok(());
        }
        if !results.wavered().is_empty() || !self.left_out.is_empty() && own_cluster()?.is_none() {
            say("Not recorded: something was left out, or passed only when tried again.");
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
        std::fs::write(&file, record::text(results, &run))?;
        say(&format!(
            "Recorded in {}: `./x check --fix` writes it into docs/coverage.md.",
            file.display()
        ));
        Ok(())
    }
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
