//! What is known of a volume in the course of one look at it.

use crate::rest::wire::Volume as ArrayVolume;
use crate::vsc::volume::step::{Found, Step};

/// What is known of a volume in the course of one look at it.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub(super) struct Look {
    /// What the array has, if it was asked.
    pub seen: Option<Seen>,
    /// The array was asked to make it.
    pub asked: bool,
    /// Nobody asked before this look, or so long ago that nothing comes of it; and it is written down that it is asked now.
    pub fresh: bool,
    /// It was seen that the array is not to go.
    pub checked: bool,
    /// An array was given up that had no room.
    pub gave_up: bool,
    /// What was changed on the array.
    pub changes: Vec<Step>,
}

impl Look {
    /// Whether the array is at what it was told already: it is looked at again later.
    pub fn is_under_way(&self, step: &Step) -> bool {
        let is_removal = matches!(step, Step::Delete | Step::DeleteByForce | Step::Purge);
        is_removal && self.changes.contains(step)
    }
}

/// What the array has.
pub(super) enum Seen {
    /// This volume.
    Volume(Box<ArrayVolume>),
    /// A volume of this name that is somebody else's.
    Foreign(Box<ArrayVolume>),
    /// Nothing but what is in the recycle bin.
    Deleted(Box<ArrayVolume>),
    /// Nothing.
    Nothing,
}

impl Seen {
    pub fn as_found(&self) -> Found<'_> {
        match self {
            Self::Volume(volume) => Found::Volume(volume),
            Self::Foreign(volume) => Found::Foreign(volume),
            Self::Deleted(volume) => Found::Deleted(volume),
            Self::Nothing => Found::Nothing,
        }
    }
}
