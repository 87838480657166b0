//! What is to be done next for a Snapshot. Nothing here does anything.

use stowage_api::vpsa::SnapshotState;

use crate::rest::CgId;
use crate::rest::wire::Snapshot as ArraySnapshot;
use crate::vsc::condition::Reason;

/// The reason of a snapshot that is not deleted for what its array shows. It waits for people.
pub const OTHER: &str = "OtherSnapshot";

/// What is so.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub struct Observed<'a> {
    /// The object is held until we have let go.
    pub held: bool,
    /// The object is to go.
    pub deleting: bool,
    /// It stays on the array, whatever becomes of the object.
    pub retain: bool,
    /// Its name on the array.
    pub name: &'a str,
    /// The array it is on, or is to be on; empty if that is not recorded.
    pub array: &'a str,
    /// Its identity there; empty if it is not known.
    pub id: &'a str,
    /// The group of its volume there; empty if it is not known.
    pub group: &'a str,
    /// Whether its volume is on an array.
    pub volume: Result<(), &'a str>,
    /// What the array has, if it was asked.
    pub found: Option<Found<'a>>,
    /// It was asked for in this look already.
    pub asked: bool,
    /// The array was asked so lately that it may have taken it, or may still do so, without it being seen.
    pub pending: bool,
}

/// What the array has.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// This snapshot.
    Snapshot(&'a ArraySnapshot),
    /// A snapshot of this name, which has another object.
    Foreign(&'a ArraySnapshot),
    /// Nothing.
    Nothing,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hold the object until we have let go.
    Hold,
    /// Record where it is to be taken.
    Locate,
    /// Ask the array.
    Ask,
    /// Take it.
    Take,
    /// Give it its name.
    Rename,
    /// Delete it on the array.
    Delete,
    /// Say how it is.
    Record(SnapshotState, Reason),
    /// Let the object go.
    LetGo,
    /// Nothing.
    Rest,
}

/// What is to be done next. [`Step::Record`] is the last: whoever has recorded it rests.
pub fn next_step(observed: &Observed<'_>) -> Step {
    if observed.deleting {
        return leave(observed);
    }
    // Whoever made the record says how it is.
    if observed.retain {
        return Step::Rest;
    }
    if !observed.held {
        return Step::Hold;
    }
    if observed.array.is_empty() {
        return match observed.volume {
            Ok(()) => Step::Locate,
            Err(reason) => not_ready(SnapshotState::Creating, "NoVolume", reason.to_owned()),
        };
    }
    match observed.found {
        None => Step::Ask,
        Some(Found::Snapshot(snapshot)) => keep(observed, snapshot),
        Some(Found::Foreign(snapshot)) => {
            let message = format!(
                "its volume has a snapshot `{}` ({}) that is not this one: choose another `displayName`",
                snapshot.display_name, snapshot.id
            );
            not_ready(SnapshotState::Failed, "NameTaken", message)
        }
        Some(Found::Nothing) => take(observed),
    }
}

/// The array does not have it.
fn take(observed: &Observed<'_>) -> Step {
    if !observed.id.is_empty() {
        let message = format!(
            "snapshot {} is not on VPSA `{}` any more: somebody deleted it there",
            observed.id, observed.array
        );
        return not_ready(SnapshotState::Failed, "Missing", message);
    }
    if !observed.asked {
        return Step::Take;
    }
    let message = "the array is taking it".to_owned();
    not_ready(SnapshotState::TakingSnapshot, "TakingSnapshot", message)
}

/// The array has it.
fn keep(observed: &Observed<'_>, snapshot: &ArraySnapshot) -> Step {
    if !snapshot.is_usable() {
        let status = snapshot.status.to_ascii_lowercase();
        let is_new = ["creat", "tak", "pend"];
        let message = format!("the array says that it is {}", snapshot.status);
        return if is_new.iter().any(|word| status.contains(word)) {
            not_ready(SnapshotState::TakingSnapshot, "TakingSnapshot", message)
        } else {
            not_ready(SnapshotState::Failed, "Unhealthy", message)
        };
    }
    if snapshot.display_name != observed.name {
        if !observed.asked {
            return Step::Rename;
        }
        let message = format!(
            "it can be restored; the array was told its name, and shows `{}`",
            snapshot.display_name
        );
        return Step::Record(SnapshotState::Ready, Reason::ready("NotTaken", message));
    }
    let reason = Reason::ready("Ready", "it can be restored");
    Step::Record(SnapshotState::Ready, reason)
}

fn leave(observed: &Observed<'_>) -> Step {
    if !observed.held {
        return Step::Rest;
    }
    if observed.retain || observed.array.is_empty() {
        return Step::LetGo;
    }
    match observed.found {
        None => Step::Ask,
        // Once its object is gone nobody would look for it any more.
        Some(Found::Nothing) if observed.id.is_empty() && observed.pending => {
            let message = format!(
                "VPSA `{}` was asked to take it and may still do so: it goes when that is certain",
                observed.array
            );
            not_ready(SnapshotState::Deleting, "TakingSnapshot", message)
        }
        Some(Found::Nothing | Found::Foreign(_)) => Step::LetGo,
        Some(Found::Snapshot(snapshot)) => delete(observed, snapshot),
    }
}

/// A snapshot of another volume is another snapshot, whatever its identity. What is not recorded cannot be another.
fn delete(observed: &Observed<'_>, snapshot: &ArraySnapshot) -> Step {
    let group = snapshot.cg.as_ref().map_or("", CgId::as_str);
    if observed.group.is_empty() || ["", observed.group].contains(&group) {
        return Step::Delete;
    }
    let message = format!(
        "{} of VPSA `{}` is of the consistency group `{group}`, and this snapshot was of `{}`: it is taken for another and not deleted. Delete \
         it there, if it is the one",
        snapshot.id, observed.array, observed.group
    );
    not_ready(SnapshotState::Deleting, OTHER, message)
}

fn not_ready(state: SnapshotState, word: &'static str, message: String) -> Step {
    Step::Record(state, Reason::not_ready(word, message))
}

#[cfg(test)]
mod tests;
