//! What a case may have made. An entry is written before the call that makes the thing, so that a case which is cut
//! short in the middle of the call still leaves nothing behind.

use stowage_csi::proto::csi::{CreateSnapshotRequest, CreateVolumeRequest};
use tonic::{Code, Status};

/// Something to remove after the case.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Made {
    Volume {
        id: String,
    },
    /// The id is not known yet: the same call again returns it.
    VolumeWithoutId(Box<CreateVolumeRequest>),
    Snapshot {
        id: String,
    },
    /// As with volumes.
    SnapshotWithoutId(Box<CreateSnapshotRequest>),
    GroupSnapshot {
        id: String,
        members: Vec<String>,
    },
    Attached {
        volume_id: String,
        node_id: String,
    },
    Staged {
        volume_id: String,
        path: String,
    },
    Published {
        volume_id: String,
        path: String,
    },
}

impl Made {
    /// A call without an id or a path, as cases about missing arguments make it. Whatever a driver makes of that,
    /// no other call can name it.
    fn is_nameless(&self) -> bool {
        match self {
            Self::Volume { id } | Self::Snapshot { id } | Self::GroupSnapshot { id, .. } => {
                id.is_empty()
            }
            Self::VolumeWithoutId(request) => request.name.is_empty(),
            Self::SnapshotWithoutId(request) => request.name.is_empty(),
            Self::Attached { volume_id, node_id } => volume_id.is_empty() || node_id.is_empty(),
            Self::Staged { volume_id, path } | Self::Published { volume_id, path } => {
                volume_id.is_empty() || path.is_empty()
            }
        }
    }
}

/// An entry of the ledger.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) made: Made,
    /// The driver said that it is there. If not, a complaint about its removal says nothing.
    pub(super) certain: bool,
}

/// Everything to remove, in the order in which it was made.
#[derive(Debug, Default)]
pub(super) struct Ledger(Vec<Entry>);

/// An entry that was written for the call under way; none if it had been there before, or has no name.
#[must_use]
pub(super) struct Begun(Option<Made>);

impl Ledger {
    /// Writes down what the next call may make.
    pub(super) fn begin(&mut self, made: Made) -> Begun {
        if made.is_nameless() || self.0.iter().any(|entry| entry.made == made) {
            return Begun(None);
        }
        self.0.push(Entry {
            made: made.clone(),
            certain: false,
        });
        Begun(Some(made))
    }

    /// Corrects the entry when the call has returned: it is certain, or it was refused and nothing was made.
    pub(super) fn settle<T>(&mut self, begun: Begun, result: Result<&T, &Status>) {
        let Begun(Some(made)) = begun else { return };
        match result {
            Ok(_) => {
                if let Some(entry) = self.0.iter_mut().find(|entry| entry.made == made) {
                    entry.certain = true;
                }
            }
            Err(status) if is_unclear(status.code()) => {}
            Err(_) => self.forget(&made),
        }
    }

    /// Replaces an entry by what the answer says.
    pub(super) fn replace(&mut self, begun: Begun, made: Made) {
        if let Begun(Some(old)) = begun {
            self.forget(&old);
        }
        let begun = self.begin(made);
        self.settle(begun, Ok(&()));
    }

    /// The thing is gone.
    pub(super) fn forget(&mut self, made: &Made) {
        self.0.retain(|entry| entry.made != *made);
    }

    /// The group snapshot is gone, whoever its members were.
    pub(super) fn forget_group(&mut self, gone: &str) {
        self.0
            .retain(|entry| !matches!(&entry.made, Made::GroupSnapshot { id, .. } if id == gone));
    }

    /// What to remove next.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        self.0.pop()
    }
}

/// May the call have done something, although it returned an error?
fn is_unclear(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::Internal
            | Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Aborted
            | Code::DataLoss
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(path: &str) -> Made {
        Made::Staged {
            volume_id: "v".to_owned(),
            path: path.to_owned(),
        }
    }

    fn rest(mut ledger: Ledger) -> Vec<(Made, bool)> {
        std::iter::from_fn(|| ledger.pop())
            .map(|entry| (entry.made, entry.certain))
            .collect()
    }

    #[test]
    fn last_made_is_first_removed() {
        let mut ledger = Ledger::default();
        for path in ["a", "b"] {
            let begun = ledger.begin(staged(path));
            ledger.settle(begun, Ok(&()));
        }
        assert_eq!(rest(ledger), [(staged("b"), true), (staged("a"), true)]);
    }

    #[test]
    fn what_was_refused_is_not_there_and_what_was_not_answered_may_be() {
        let mut ledger = Ledger::default();
        let begun = ledger.begin(staged("refused"));
        ledger.settle::<()>(begun, Err(&Status::invalid_argument("")));
        let begun = ledger.begin(staged("unclear"));
        ledger.settle::<()>(begun, Err(&Status::deadline_exceeded("")));
        let _cut_short = ledger.begin(staged("cut short"));
        assert_eq!(
            rest(ledger),
            [(staged("cut short"), false), (staged("unclear"), false)]
        );
    }

    #[test]
    fn a_refused_repetition_does_not_undo_the_first_call() {
        let mut ledger = Ledger::default();
        let begun = ledger.begin(staged("a"));
        ledger.settle(begun, Ok(&()));
        let begun = ledger.begin(staged("a"));
        ledger.settle::<()>(begun, Err(&Status::already_exists("")));
        assert_eq!(rest(ledger), [(staged("a"), true)]);
    }

    #[test]
    fn what_has_no_name_is_not_written_down() {
        let mut ledger = Ledger::default();
        let begun = ledger.begin(staged(""));
        ledger.settle(begun, Ok(&()));
        assert_eq!(rest(ledger), []);
    }

    #[test]
    fn an_answer_replaces_the_question() {
        let request = CreateVolumeRequest {
            name: "n".to_owned(),
            ..Default::default()
        };
        let mut ledger = Ledger::default();
        let begun = ledger.begin(Made::VolumeWithoutId(Box::new(request)));
        let volume = Made::Volume { id: "v".to_owned() };
        ledger.replace(begun, volume.clone());
        assert_eq!(rest(ledger), [(volume, true)]);
    }
}
