//! The condition `Ready`: what is so, why, and since when.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use stowage_api::vpsa::Observed;

/// The type of the condition.
pub const READY: &str = "Ready";

/// What is to be said of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Whether it can be used.
    pub ready: bool,
    /// One word, for programs.
    pub word: &'static str,
    /// A sentence, for people.
    pub message: String,
}

impl Reason {
    /// It can be used.
    pub fn ready(word: &'static str, message: impl Into<String>) -> Self {
        Self {
            ready: true,
            word,
            message: message.into(),
        }
    }

    /// It cannot be used.
    pub fn not_ready(word: &'static str, message: impl Into<String>) -> Self {
        Self {
            ready: false,
            word,
            message: message.into(),
        }
    }
}

/// What is said from now on. The moment of the last change stays if nothing changed; so does what others say.
pub fn observed(
    before: &Observed,
    generation: Option<i64>,
    reason: &Reason,
    now: Timestamp,
) -> Observed {
    let status = if reason.ready { "True" } else { "False" };
    let same = |known: &&Condition| known.type_ == READY && known.status == status;
    let since = before.conditions.iter().find(same);
    let since = since.map_or(Time(now), |known| known.last_transition_time.clone());
    let others = before.conditions.iter().filter(|it| it.type_ != READY);
    let own = Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: reason.word.to_owned(),
        message: reason.message.clone(),
        last_transition_time: since,
        observed_generation: generation,
    };
    Observed {
        observed_generation: generation,
        conditions: others.cloned().chain([own]).collect(),
    }
}

/// The condition as it was last written.
pub fn ready(observed: &Observed) -> Option<&Condition> {
    observed.conditions.iter().find(|it| it.type_ == READY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_of_a_condition_changes_with_its_status_only() {
        let moment = |second| Timestamp::from_second(second).unwrap();
        let broken = Reason::not_ready("Unreachable", "nobody answers");
        let first = observed(&Observed::default(), Some(1), &broken, moment(1));
        let other = Reason::not_ready("Credentials", "the key is wrong");
        let second = observed(&first, Some(2), &other, moment(2));
        let condition = ready(&second).unwrap();
        assert_eq!(condition.last_transition_time, Time(moment(1)));
        assert_eq!(
            (condition.reason.as_str(), second.conditions.len()),
            ("Credentials", 1)
        );
        let third = observed(&second, Some(2), &Reason::ready("Ready", ""), moment(3));
        assert_eq!(ready(&third).unwrap().last_transition_time, Time(moment(3)));
        assert_eq!(
            observed(&third, Some(2), &Reason::ready("Ready", ""), moment(4)),
            third
        );
    }
}
