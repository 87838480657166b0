//! What a reconcile came to: the one thing that the status stage is given.

use std::time::Duration;

use super::apply::Applied;
use super::drain::Drained;
use super::observe::Observation;
use super::problem::Problem;

/// How soon it is looked for more where something was handed over.
const AT_ONCE: Duration = Duration::from_millis(50);
/// How soon it is looked again at what nobody watches.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// What a reconcile came to.
pub(super) enum Outcome {
    /// The instance is unmanaged: nothing was touched or looked at.
    Unmanaged,
    /// Problems came before anything could be looked at: what else the status says stays.
    Unseen(Vec<Problem>),
    /// The same, and a person has to mend something first: nodes that were being emptied were let go.
    Stopped(Vec<Problem>),
    /// The objects were looked at, and are as described where there was no problem.
    Synced(Box<Synced>),
    /// The instance is being deleted, and this keeps it.
    Held(Vec<Problem>),
    /// The instance is gone, or nothing keeps it any more.
    Released,
    /// A request about the instance itself failed.
    Failed(kube::Error),
}

/// What was done, and what it looks like now.
pub(super) struct Synced {
    pub(super) applied: Applied,
    /// What should be known although everything is as described.
    pub(super) warnings: Vec<Problem>,
    /// What the workloads look like; `None`: there is no telling.
    pub(super) observation: Option<Observation>,
    /// How far an update is that empties nodes first.
    pub(super) drained: Drained,
    /// The first of the instance's own ports, if it needs its own.
    pub(super) first_port: Option<u16>,
}

impl Outcome {
    /// What went wrong with the instance or its objects.
    pub(super) fn problems(&self) -> &[Problem] {
        match self {
            Self::Unseen(problems) | Self::Stopped(problems) | Self::Held(problems) => problems,
            Self::Synced(synced) => &synced.applied.problems,
            Self::Unmanaged | Self::Released | Self::Failed(_) => &[],
        }
    }

    /// When to look again although nothing went wrong.
    pub(super) fn look_again(&self) -> Option<Duration> {
        match self {
            Self::Synced(synced) if synced.applied.has_adopted() => Some(AT_ONCE),
            Self::Synced(synced) => synced.drained.look_again,
            _ => None,
        }
    }

    /// When it is tried again, where failures alone ask for a pause: what goes on beside a problem goes on at its own pace.
    pub(super) fn pause(&self, after_failures: Duration) -> Duration {
        let longest = after_failures.min(self.longest_pause());
        self.look_again()
            .map_or(longest, |pause| pause.min(longest))
    }

    /// The longest pause before it is tried again, if there is one.
    fn longest_pause(&self) -> Duration {
        match self {
            // Somebody waits for it, and pods and attachments that hold it are not watched.
            Self::Held(problems) if !problems.iter().all(|it| it.is_watched) => LOOK_AGAIN,
            // It is called by a driver that has had its turn, and not by one that an operator before this one has begun with, or a person.
            Self::Synced(synced) if synced.applied.waits_for_turn() => LOOK_AGAIN,
            _ => Duration::MAX,
        }
    }

    /// Whether nothing is left to do until something changes, or until it is time to look again.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Unmanaged | Self::Released => true,
            Self::Held(_) | Self::Failed(_) => false,
            Self::Unseen(_) | Self::Stopped(_) | Self::Synced(_) => {
                self.problems().iter().all(|it| !it.is_worth_a_retry)
            }
        }
    }
}

impl From<Problem> for Outcome {
    fn from(problem: Problem) -> Self {
        Self::Unseen(vec![problem])
    }
}

impl From<kube::Error> for Outcome {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn synced(problems: Vec<Problem>) -> Outcome {
        Outcome::Synced(Box::new(Synced {
            applied: Applied::nothing(BTreeMap::default(), problems),
            warnings: Vec::new(),
            observation: None,
            drained: Drained::default(),
            first_port: None,
        }))
    }

    #[test]
    fn whoever_waits_for_its_turn_asks_again_soon() {
        let others = ["n/other".to_owned()];
        let waits = synced(vec![Problem::not_its_turn(&others)]);
        assert!(!waits.is_final());
        assert_eq!(waits.pause(Duration::MAX), LOOK_AGAIN);
        assert_eq!(synced(Vec::new()).pause(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn a_problem_that_lasts_does_not_slow_down_what_goes_on_beside_it() {
        let others = ["n/other".to_owned()];
        let mut outcome = synced(vec![Problem::not_its_turn(&others)]);
        let (soon, later) = (Duration::from_secs(1), Duration::from_secs(300));
        if let Outcome::Synced(synced) = &mut outcome {
            synced.drained.look_again = Some(soon);
        }
        assert_eq!(outcome.pause(later), soon);
        assert_eq!(outcome.pause(soon / 2), soon / 2);
    }
}
