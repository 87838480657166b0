//! The results of a run.

mod junit;
mod terminal;

use std::collections::BTreeMap;

use serde::Serialize;
use stowage_csi::proto::csi::GetPluginInfoResponse;

pub(crate) use self::junit::junit;
pub(crate) use self::terminal::Terminal;
pub use crate::check::Failure;

/// A run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Who was tested.
    pub driver: DriverReport,
    /// How long it took.
    pub seconds: f64,
    /// Somebody stopped it before its end.
    pub interrupted: bool,
    /// Every case that was chosen, in order.
    pub cases: Vec<CaseReport>,
}

/// The driver that was tested, in its own words. Empty if it has none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DriverReport {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// The RPC or subject.
    pub group: &'static str,
    /// What a good driver does.
    pub name: &'static str,
    /// How long it took, with cleaning up.
    pub seconds: f64,
    /// Its result.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// The driver does it.
    Passed,
    /// The driver does not do it.
    Failed {
        /// What was expected and what the driver did; the clean-up's failures last.
        failures: Vec<Failure>,
    },
    /// The driver does not promise it.
    Skipped {
        /// Why, as a sentence without its full stop.
        reason: String,
    },
}

/// How many cases had which result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Skipped.
    pub skipped: usize,
}

impl DriverReport {
    /// Control characters are dropped: the name goes to a terminal.
    pub(crate) fn of(info: Option<&GetPluginInfoResponse>) -> Self {
        let plain = |text: &str| text.chars().filter(|c| !c.is_control()).collect();
        info.map(|info| Self {
            name: plain(&info.name),
            version: plain(&info.vendor_version),
        })
        .unwrap_or_default()
    }
}

impl Outcome {
    /// Changes every text of the outcome.
    pub(crate) fn rewrite(&mut self, change: impl Fn(&str) -> String) {
        match self {
            Self::Passed => {}
            Self::Skipped { reason } => *reason = change(reason),
            Self::Failed { failures } => {
                for failure in failures {
                    for text in [&mut failure.check, &mut failure.expected, &mut failure.got] {
                        *text = change(text);
                    }
                }
            }
        }
    }
}

impl Report {
    /// How many cases had which result.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for case in &self.cases {
            match case.outcome {
                Outcome::Passed => counts.passed += 1,
                Outcome::Failed { .. } => counts.failed += 1,
                Outcome::Skipped { .. } => counts.skipped += 1,
            }
        }
        counts
    }

    /// The cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &CaseReport> {
        let failed = |case: &&CaseReport| matches!(case.outcome, Outcome::Failed { .. });
        self.cases.iter().filter(failed)
    }

    /// How many cases were skipped, by what the driver or the call lacks.
    pub fn skipped(&self) -> BTreeMap<&str, usize> {
        let mut reasons = BTreeMap::new();
        for case in &self.cases {
            if let Outcome::Skipped { reason } = &case.outcome {
                *reasons.entry(reason.as_str()).or_default() += 1;
            }
        }
        reasons
    }

    /// Did every case run to its end, and did none fail?
    pub fn is_success(&self) -> bool {
        !self.interrupted && self.counts().failed == 0
    }

    /// The report for programs.
    pub(crate) fn json(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct WithCounts<'a> {
            #[serde(flatten)]
            counts: Counts,
            #[serde(flatten)]
            report: &'a Report,
        }
        let counts = self.counts();
        let report = self;
        serde_json::to_string_pretty(&WithCounts { counts, report })
    }
}

#[cfg(test)]
mod tests;
