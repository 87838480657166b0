//! What is to be done next for a Volume. Nothing here does anything.

mod removal;

use stowage_api::vpsa::VolumeState;

pub use self::removal::{REFUSED, how_to_force};
use super::wanted::Wanted;
use crate::rest::api::Kind;
use crate::rest::wire::{DataType, Volume as ArrayVolume};
use crate::vsc::condition::Reason;

/// What is so.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub struct Observed<'a> {
    /// The object is held until we have let go.
    pub held: bool,
    /// The object is to go.
    pub deleting: bool,
    /// The name of the array that was chosen; empty if none is.
    pub array: &'a str,
    /// Its wanted name there, and the one that was last seen there; the second is empty if that is not recorded.
    pub names: [&'a str; 2],
    /// Its identity there; empty if it is not known.
    pub id: &'a str,
    /// Its group there, or that of a clone that is being made; empty if it is not known.
    pub group: &'a str,
    /// It is to be a copy of something.
    pub is_clone: bool,
    /// The array may have been asked to make it.
    pub began: bool,
    /// It was asked so lately that it may have made it, or may still do so, without it being seen.
    pub pending: bool,
    /// In this look it was seen that the array is not to go.
    pub checked: bool,
    /// Nobody asked before this look, or so long ago that nothing comes of it; and it is written down that it is asked now.
    pub fresh: bool,
    /// What the array has, if it was asked.
    pub found: Option<Found<'a>>,
    /// Snapshots of it.
    pub snapshots: usize,
    /// Attachments of it.
    pub attachments: usize,
    /// It was asked for in this look already.
    pub asked: bool,
    /// The array was asked lately to make it larger than it was last seen.
    pub expanding: bool,
    /// The array was told its name in this look.
    pub renamed: bool,
    /// The array was told in this look what people say about it.
    pub commented: bool,
    /// Which volume of the array people want to be deleted by force; empty if none.
    pub forced: &'a str,
    /// What is deleted does not stay in the recycle bin.
    pub empties_bin: bool,
}

impl Observed<'_> {
    /// Nothing of it can be on any array.
    fn is_unbegun(&self) -> bool {
        !self.began && self.id.is_empty() && self.group.is_empty()
    }
}

/// What the array has.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// This volume.
    Volume(&'a ArrayVolume),
    /// A volume of this name that is somebody else's.
    Foreign(&'a ArrayVolume),
    /// Nothing but what is in the recycle bin.
    Deleted(&'a ArrayVolume),
    /// Nothing.
    Nothing,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hold the object until we have let go.
    Hold,
    /// Choose an array, and record it.
    Choose,
    /// Make sure that the array is not to go; otherwise another is to be chosen.
    Check,
    /// Write down that the array is asked from now on.
    Begin,
    /// Ask the array.
    Ask,
    /// Make it on the array.
    Create,
    /// Copy it on the array.
    Clone,
    /// Make it larger, by so many GB.
    Expand(u64),
    /// Give it its name.
    Rename,
    /// Say what people say about it.
    Comment,
    /// Delete it on the array, if that has nothing against it.
    Delete,
    /// Delete it on the array, whatever that has against it.
    DeleteByForce,
    /// Remove it from the recycle bin.
    Purge,
    /// Say how it is.
    Record(VolumeState, Reason),
    /// Let the object go.
    LetGo,
    /// Nothing.
    Rest,
}

/// The reason of a volume that its array is making larger.
pub const EXPANDING: &str = "Expanding";

/// The reason of a volume whose array has written something else than it was told.
pub const NOT_TAKEN: &str = "NotTaken";

/// The reason of a volume that is to be smaller than it is.
const CANNOT_SHRINK: &str = "CannotShrink";

/// Whether people have to hear of it as a warning. A volume that cannot shrink can be used, but somebody asked in vain.
pub fn is_trouble(state: &VolumeState, reason: &Reason) -> bool {
    *state == VolumeState::Failed || reason.word == CANNOT_SHRINK || REFUSED.contains(&reason.word)
}

/// What is to be done next. [`Step::Record`] is the last: whoever has recorded it rests.
pub fn next_step(wanted: &Result<Wanted, String>, observed: &Observed<'_>) -> Step {
    if observed.deleting {
        return leave(observed);
    }
    if !observed.held {
        return Step::Hold;
    }
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(reason) => {
            let reason = Reason::not_ready("InvalidSpec", reason.clone());
            return Step::Record(VolumeState::Failed, reason);
        }
    };
    if observed.array.is_empty() {
        return Step::Choose;
    }
    match observed.found {
        Some(Found::Foreign(volume)) => {
            let message = format!(
                "VPSA `{}` has a volume `{}` ({}) that is not this one: rename one of them",
                observed.array, volume.display_name, volume.id
            );
            let reason = Reason::not_ready("NameTaken", message);
            Step::Record(VolumeState::Failed, reason)
        }
        Some(Found::Volume(volume)) => keep(wanted, volume, observed),
        Some(Found::Deleted(_) | Found::Nothing) => make(observed),
        None if observed.is_unbegun() && !observed.checked => Step::Check,
        None => Step::Ask,
    }
}

/// The array does not have it.
fn make(observed: &Observed<'_>) -> Step {
    if !observed.id.is_empty() {
        let message = format!(
            "volume {} is not on VPSA `{}` any more: somebody deleted it there",
            observed.id, observed.array
        );
        return Step::Record(VolumeState::Failed, Reason::not_ready("Missing", message));
    }
    // The array has taken it on, and it is seen later.
    if observed.asked || !observed.group.is_empty() {
        let (state, word, message) = if observed.is_clone {
            (VolumeState::Cloning, "Cloning", "the array is copying it")
        } else {
            let message = "the array is making it";
            (VolumeState::Provisioning, "Provisioning", message)
        };
        return Step::Record(state, Reason::not_ready(word, message));
    }
    if !observed.fresh && !observed.pending {
        return if observed.checked {
            Step::Begin
        } else {
            Step::Check
        };
    }
    if observed.is_clone {
        Step::Clone
    } else {
        Step::Create
    }
}

/// The array has it.
fn keep(wanted: &Wanted, volume: &ArrayVolume, observed: &Observed<'_>) -> Step {
    if !volume.is_usable() {
        return wait_for(volume);
    }
    let is_block = volume.data_type == DataType::Block;
    if is_block != (wanted.kind == Kind::Block) {
        let text = "the volume on the array is of the other type: `volumeType` cannot change";
        let reason = Reason::not_ready("OtherType", text);
        return Step::Record(VolumeState::Failed, reason);
    }
    let has_other_name = volume.display_name != wanted.name;
    if has_other_name && !observed.renamed {
        return Step::Rename;
    }
    let comment = wanted.comment.as_ref();
    let has_other_comment = comment.is_some_and(|comment| *comment != volume.comment);
    if has_other_comment && !observed.commented {
        return Step::Comment;
    }
    let size = volume.virtual_capacity;
    if size < wanted.gigabytes && observed.expanding {
        let reason = Reason::ready(EXPANDING, "the array is making it larger");
        return Step::Record(VolumeState::Ready, reason);
    }
    if size < wanted.gigabytes {
        return Step::Expand(wanted.gigabytes - size);
    }
    // A share may grow by itself, and what an array has is never made smaller.
    if size > wanted.gigabytes && !volume.autoexpand {
        let message = format!(
            "it has {size} GB and cannot shrink to {}: write the larger size",
            wanted.gigabytes
        );
        return Step::Record(VolumeState::Ready, Reason::ready(CANNOT_SHRINK, message));
    }
    if has_other_name || has_other_comment {
        let message = format!(
            "the array was told its name and comment, and shows `{}` and `{}`",
            volume.display_name, volume.comment
        );
        return Step::Record(VolumeState::Ready, Reason::ready(NOT_TAKEN, message));
    }
    Step::Record(
        VolumeState::Ready,
        Reason::ready("Ready", "it can be attached"),
    )
}

/// The array has it, and is at something with it, or it is broken.
fn wait_for(volume: &ArrayVolume) -> Step {
    let status = volume.status.to_ascii_lowercase();
    let is_one_of = |words: &[&str]| words.iter().any(|word| status.contains(word));
    let message = format!("the array says that it is {}", volume.status);
    // It can be used meanwhile.
    if is_one_of(&["expand", "resiz", "extend"]) {
        return Step::Record(VolumeState::Ready, Reason::ready(EXPANDING, message));
    }
    let (state, word) = if is_one_of(&["creat", "provision", "clon", "initializ"]) {
        (VolumeState::Provisioning, "Provisioning")
    } else {
        (VolumeState::Failed, "Unhealthy")
    };
    Step::Record(state, Reason::not_ready(word, message))
}

fn leave(observed: &Observed<'_>) -> Step {
    let wait = |word, message: String| {
        let reason = Reason::not_ready(word, message);
        Step::Record(VolumeState::Deleting, reason)
    };
    if !observed.held {
        return Step::Rest;
    }
    let is_unasked = observed.fresh && !observed.asked;
    if observed.array.is_empty() || observed.is_unbegun() || is_unasked {
        return Step::LetGo;
    }
    // What is known of these may be behind: the array itself refuses to delete a volume that has either.
    if observed.attachments > 0 {
        return wait(
            "Attached",
            "it is attached: detach it, and it goes".to_owned(),
        );
    }
    if observed.snapshots > 0 {
        let message = format!(
            "it has {} snapshots: delete them, and it goes",
            observed.snapshots
        );
        return wait("HasSnapshots", message);
    }
    match observed.found {
        None => Step::Ask,
        // A clone that has a group and is not seen yet will be.
        Some(Found::Nothing) if observed.id.is_empty() && !observed.group.is_empty() => {
            wait("Cloning", "the array is still copying it".to_owned())
        }
        // Once its object is gone nobody would look for it any more.
        Some(Found::Nothing) if observed.id.is_empty() && observed.pending => {
            let message = format!(
                "VPSA `{}` was asked to make it and may still do so: it goes when that is certain",
                observed.array
            );
            wait("Provisioning", message)
        }
        Some(Found::Deleted(_)) if observed.empties_bin => Step::Purge,
        Some(Found::Nothing | Found::Foreign(_) | Found::Deleted(_)) => Step::LetGo,
        Some(Found::Volume(volume)) => removal::of(volume, observed),
    }
}

#[cfg(test)]
mod tests;
