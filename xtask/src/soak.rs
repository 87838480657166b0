//! `./x soak`: the fault tests at full size. The same code as in `./x test`; variables make it do more.

use std::mem;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;
use devcluster::process::logged;
use devcluster::report::{Report, Step, took};

use crate::workspace::{self, cargo};

/// The tests: `crates/cli/tests/it/faults`.
const TESTS: [&str; 5] = ["--package", "stowage", "--test", "it", "faults"];
/// A storm of changes, with which the operator has to keep up.
const STORM: [&str; 5] = ["--package", "stowage-operator", "--test", "it", "storm"];

#[derive(clap::Args)]
pub struct Options {
    /// Claims that come and go while the sidecar is killed; other scenarios have a part of them.
    #[arg(long, value_name = "N", default_value_t = 500)]
    claims: usize,
    /// Claims that grow while everything is killed, each with a snapshot and a claim restored from it.
    #[arg(long, value_name = "N", default_value_t = 200)]
    snapshots: usize,
    /// How often the sidecar is killed, and everything around snapshots; leaders a fifth of it.
    #[arg(long, value_name = "N", default_value_t = 50)]
    kills: usize,
    /// How often the driver is killed.
    #[arg(long, value_name = "N", default_value_t = 20)]
    driver_kills: usize,
    /// How long the API server is away.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    outage: u64,
    /// How long objects around the operator change fifty times a second.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    storm: u64,
    /// Decides moments and claims: any, if none is given. A failure names its seed.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Go on with the next seed until this time has passed.
    #[arg(long, value_name = "HOURS", default_value_t = 0.0)]
    hours: f64,
}

pub fn run(options: &Options, report: &Report) -> anyhow::Result<()> {
    let Ok(long) = Duration::try_from_secs_f64(options.hours * 3600.0) else {
        bail!("--hours is {}: write a number such as 0.5", options.hours);
    };
    workspace::ensure_servers(report)?;
    let mut build = cargo("test");
    build.arg("--no-run").args(TESTS);
    workspace::step(report, "Building the tests", &mut build)?;
    let mut storm = cargo("test");
    let lasts = options.storm.to_string();
    storm.args(STORM).env("STOWAGE_SOAK_STORM_SECONDS", lasts);
    workspace::step(report, "A storm of changes around the operator", &mut storm)?;

    let started = Instant::now();
    let first = options.seed.unwrap_or_else(any_seed);
    let mut seed = first;
    play(options, seed, report)?;
    while started.elapsed() < long {
        seed = seed.wrapping_add(1);
        play(options, seed, report)?;
    }
    report.say(&format!(
        "ok  With {} claims, {} snapshots, {} kills and seeds {first} to {seed}: nothing was lost and nothing is left ({})",
        options.claims,
        options.snapshots,
        options.kills,
        took(started.elapsed())
    ));
    Ok(())
}

/// All scenarios once, one after the other.
fn play(options: &Options, seed: u64, report: &Report) -> anyhow::Result<()> {
    report.say(&format!("... Seed {seed}"));
    let mut shown: Option<Step> = None;
    let mut panicked = false;
    let mut why = String::new();
    let outcome = logged(&mut tests(options, seed), report.log(), |line| {
        if mem::take(&mut panicked) {
            line.clone_into(&mut why);
        }
        match News::of(line) {
            Some(News::Begins(scenario)) => shown = Some(report.step(scenario)),
            Some(News::Faults(done, total)) => {
                if let Some(step) = &shown {
                    step.progress(done, total);
                }
            }
            Some(News::Ends(how)) => {
                if let Some(step) = shown.take() {
                    step.done(how);
                }
            }
            // The next line says why.
            Some(News::Panics) => panicked = true,
            None => {}
        }
    });
    drop(shown);
    let Err(error) = outcome else { return Ok(()) };
    if why.is_empty() {
        why = error.to_string();
    }
    bail!(
        "{why}\nThe same again: ./x soak --claims {} --snapshots {} --kills {} --driver-kills {} --outage {} --seed {seed}",
        options.claims,
        options.snapshots,
        options.kills,
        options.driver_kills,
        options.outage,
    );
}

fn tests(options: &Options, seed: u64) -> Command {
    let mut command = cargo("test");
    command
        .args(TESTS)
        // One scenario at a time, and what it says while it says it.
        .args(["--", "--nocapture", "--test-threads=1"])
        .env("STOWAGE_SOAK_CLAIMS", options.claims.to_string())
        .env("STOWAGE_SOAK_SNAPSHOTS", options.snapshots.to_string())
        .env("STOWAGE_SOAK_KILLS", options.kills.to_string())
        .env(
            "STOWAGE_SOAK_DRIVER_KILLS",
            options.driver_kills.to_string(),
        )
        .env("STOWAGE_SOAK_OUTAGE_SECONDS", options.outage.to_string())
        .env("STOWAGE_SOAK_SEED", seed.to_string())
        .env("RUST_BACKTRACE", "0");
    command
}

/// What the tests say of themselves.
#[derive(Debug, PartialEq, Eq)]
enum News<'a> {
    /// `killed-sidecar: seed 7`
    Begins(&'a str),
    /// `killed-sidecar: 3 of 50 faults`
    Faults(u64, u64),
    /// `killed-sidecar: over: 500 claims, ...`
    Ends(&'a str),
    /// `thread 'a_killed_sidecar_loses_nothing' panicked at ...:`
    Panics,
}

impl<'a> News<'a> {
    fn of(line: &'a str) -> Option<Self> {
        if line.starts_with("thread ") && line.contains(" panicked at ") {
            return Some(Self::Panics);
        }
        // The first words of a test stand behind its name.
        let line = line.rsplit(" ... ").next()?;
        let (scenario, news) = line.split_once(": ")?;
        if news.starts_with("seed ") {
            return Some(Self::Begins(scenario));
        }
        if let Some(how) = news.strip_prefix("over: ") {
            return Some(Self::Ends(how));
        }
        let (done, total) = news.strip_suffix(" faults")?.split_once(" of ")?;
        Some(Self::Faults(done.parse().ok()?, total.parse().ok()?))
    }
}

/// Short enough to be typed.
fn any_seed() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    (now.as_secs() ^ u64::from(now.subsec_nanos())) % 1_000_000
}

#[cfg(test)]
mod tests {
    use super::News;

    #[test]
    fn the_lines_of_the_tests_are_understood() {
        for (line, expected) in [
            (
                "test a_killed_driver_loses_nothing ... killed-driver: seed 7",
                Some(News::Begins("killed-driver")),
            ),
            ("killed-driver: 3 of 20 faults", Some(News::Faults(3, 20))),
            (
                "killed-driver: over: 250 claims, 20 faults",
                Some(News::Ends("250 claims, 20 faults")),
            ),
            (
                "thread 'a_killed_driver_loses_nothing' (7) panicked at scene.rs:1:2:",
                Some(News::Panics),
            ),
            ("test plan::the_same_seed_makes_the_same_plan ... ok", None),
            ("ok", None),
        ] {
            assert_eq!(News::of(line), expected, "{line}");
        }
    }
}
