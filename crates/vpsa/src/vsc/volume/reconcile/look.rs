//! What is known of a volume in the course of one look at it.

use crate::rest::wire::Volume as ArrayVolume;
use crate::vsc::volume::step::Found;

/// What is known of a volume in the course of one look at it.
#[derive(Default)]
pub(super) struct Look {
    /// What the array has, if it was asked.
    pub seen: Option<Seen>,
    /// The array was asked to make it.
    pub asked: bool,
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
