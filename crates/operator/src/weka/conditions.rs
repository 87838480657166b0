//! Conditions: what they are about, why they are as they are, and since when.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::problem::Problem;

/// A condition before it is known when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    about: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Finding {
    /// It holds.
    pub fn yes(about: &'static str, reason: &'static str, message: &str) -> Self {
        Self {
            about,
            holds: true,
            reason,
            message: message.to_owned(),
        }
    }

    /// It does not hold.
    pub fn no(about: &'static str, reason: &'static str, message: &str) -> Self {
        Self {
            holds: false,
            ..Self::yes(about, reason, message)
        }
    }

    /// It does not hold, because of this.
    pub fn of_problem(about: &'static str, problem: &Problem) -> Self {
        Self::no(about, problem.reason.as_str(), &problem.message)
    }

    /// It holds unless there are problems.
    pub fn of_problems(
        about: &'static str,
        problems: &[Problem],
        reason: &'static str,
        message: &str,
    ) -> Self {
        let Some(first) = problems.first() else {
            return Self::yes(about, reason, message);
        };
        let all: Vec<_> = problems.iter().map(|it| it.message.as_str()).collect();
        Self::no(about, first.reason.as_str(), &all.join("; "))
    }
}

/// Puts a condition in its place, or takes it away. It keeps its time while its status stays.
pub fn set(
    conditions: &mut Vec<Condition>,
    finding: Option<Finding>,
    about: &str,
    generation: Option<i64>,
) {
    let place = conditions.iter().position(|it| it.type_ == about);
    let Some(finding) = finding else {
        if let Some(place) = place {
            conditions.remove(place);
        }
        return;
    };
    let status = if finding.holds { "True" } else { "False" };
    let old = place.map(|place| &conditions[place]);
    let since = old.filter(|it| it.status == status);
    let since = since.map(|it| it.last_transition_time.clone());
    let new = Condition {
        type_: finding.about.to_owned(),
        status: status.to_owned(),
        last_transition_time: since.unwrap_or_else(|| Time(Timestamp::now())),
        reason: finding.reason.to_owned(),
        message: finding.message,
        observed_generation: generation,
    };
    match place {
        Some(place) => conditions[place] = new,
        None => conditions.push(new),
    }
}
