//! Runs cases, one after the other or some at a time, and keeps their outcomes in order.

use std::sync::Arc;
use std::time::Instant;

use futures::stream::{self, StreamExt as _};
use tokio_util::sync::CancellationToken;

use crate::case::{Case, Group};
use crate::cases::GROUPS;
use crate::check::{Failure, Stop};
use crate::driver::{Driver, DriverError};
use crate::filter::{FilterError, full_name};
use crate::options::Options;
use crate::report::{CaseReport, DriverReport, Outcome, Report};
use crate::scene::{Run, Scene};

/// Why no case ran.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// There is no case.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// What happens during a run, for whoever watches.
#[derive(Debug)]
pub enum Event<'a> {
    /// The driver does not answer yet; the sentence says why. It comes once.
    Waiting(String),
    /// The driver answered, and this many cases will run.
    Started {
        /// Who it is.
        driver: &'a DriverReport,
        /// How many.
        cases: usize,
    },
    /// A case has ended. They come in the order of the list.
    Finished(&'a CaseReport),
}

/// A case with its place in the run.
#[derive(Clone, Copy)]
struct Chosen {
    number: usize,
    group: &'static Group,
    case: &'static Case,
}

/// Runs the chosen cases against the driver.
///
/// When `stop` is cancelled, the case under way is cut short, cleans up, and the others do not start.
pub async fn conformance(
    options: Options,
    stop: CancellationToken,
    mut watch: impl FnMut(Event<'_>),
) -> Result<Report, RunError> {
    let chosen = options.filter.select(GROUPS)?;
    let started = Instant::now();
    let driver = tokio::select! {
        driver = Driver::connect(&options, |why| watch(Event::Waiting(why))) => driver?,
        () = stop.cancelled() => return Ok(Report::default()),
    };
    let jobs = options.jobs.get();
    let mut report = Report {
        driver: DriverReport::of(driver.info.as_ref()),
        ..Default::default()
    };
    watch(Event::Started {
        driver: &report.driver,
        cases: chosen.len(),
    });

    let chosen: Vec<_> = chosen
        .into_iter()
        .enumerate()
        .map(|(index, (group, case))| Chosen {
            number: index + 1,
            group,
            case,
        })
        .collect();
    let run = Arc::new(Run::new(options, driver));
    for together in chosen.chunk_by(|one, next| !one.case.alone && !next.case.alone) {
        let mut outcomes = stream::iter(together.iter().copied())
            .map(|chosen| run_one(&run, chosen, &stop))
            .buffered(jobs);
        while let Some(outcome) = outcomes.next().await {
            watch(Event::Finished(&outcome));
            report.cases.push(outcome);
        }
    }
    report.interrupted = stop.is_cancelled();
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

async fn run_one(run: &Arc<Run>, chosen: Chosen, stop: &CancellationToken) -> CaseReport {
    let started = Instant::now();
    let mut clean_up = Vec::new();
    let outcome = match unmet(run, chosen) {
        _ if stop.is_cancelled() => interrupted(),
        _ if run.gone.get().is_some() => Outcome::Skipped {
            reason: run.gone.get().cloned().unwrap_or_default(),
        },
        Err(stop) => outcome(Err(stop)),
        Ok(()) => {
            let mut scene = Scene::new(run, chosen.number);
            let outcome = tokio::select! {
                checked = (chosen.case.run)(&mut scene) => outcome(checked),
                () = stop.cancelled() => interrupted(),
            };
            clean_up = scene.clean_up().await;
            if matches!(outcome, Outcome::Failed { .. }) {
                wait_for_driver(run, chosen).await;
            }
            outcome
        }
    };
    let mut report = CaseReport {
        group: chosen.group.name,
        name: chosen.case.name,
        seconds: started.elapsed().as_secs_f64(),
        outcome: with_clean_up(outcome, clean_up),
    };
    report
        .outcome
        .rewrite(|text| run.options.secrets.hide(text));
    report
}

/// A case may have crashed the driver. If it does not come back, the other cases would only say so 94 times.
async fn wait_for_driver(run: &Run, chosen: Chosen) {
    let timeout = run.options.ready_timeout;
    if let Err(error) = run.driver.wait_until_ready(timeout).await {
        let name = full_name(chosen.group, chosen.case);
        let reason = format!("the driver went away during `{name}`: {error}");
        _ = run.gone.set(reason);
    }
}

fn interrupted() -> Outcome {
    Outcome::Skipped {
        reason: "the run was interrupted".to_owned(),
    }
}

/// Stops the case if the driver lacks something, or does not say whether it has it.
fn unmet(run: &Run, chosen: Chosen) -> Result<(), Stop> {
    for need in chosen.group.needs.iter().chain(chosen.case.needs) {
        if !run.driver.facts.has(*need)? {
            return Err(Stop::Skipped(format!("the driver lacks {need}")));
        }
    }
    Ok(())
}

fn outcome(checked: Result<(), Stop>) -> Outcome {
    match checked {
        Ok(()) => Outcome::Passed,
        Err(Stop::Skipped(reason)) => Outcome::Skipped { reason },
        Err(Stop::Failed(failure)) => Outcome::Failed {
            failures: vec![failure],
        },
    }
}

/// A case that leaves something behind has failed, whatever it found before.
fn with_clean_up(outcome: Outcome, clean_up: Vec<Failure>) -> Outcome {
    if clean_up.is_empty() {
        return outcome;
    }
    let mut failures = match outcome {
        Outcome::Failed { failures } => failures,
        Outcome::Passed | Outcome::Skipped { .. } => Vec::new(),
    };
    failures.extend(clean_up);
    Outcome::Failed { failures }
}
