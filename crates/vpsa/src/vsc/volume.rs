//! Volume: made on an array, grown, renamed, deleted.
//!
//! - [`wanted`]: what the object asks for, in the array's terms (pure).
//! - [`step`]: what is to be done next (pure).
//! - [`reconcile`]: does the steps.
//!
//! The array that was chosen is recorded before anything is made there, so whoever continues after a crash looks at the right
//! one. So is the moment at which it is asked. A volume without a known identity is found by its name: ours, if the array was
//! asked for it, and was not before somebody else had the name.

pub mod reconcile;
pub mod step;
pub mod wanted;

use stowage_api::vpsa::{VolumeState, VolumeStatus};

pub use reconcile::Volumes;

/// Whether the array may have been asked to make a volume. Zadara's driver says so by the state alone.
fn has_begun(status: &VolumeStatus) -> bool {
    let is_new = matches!(status.state, VolumeState::Creating | VolumeState::Failed);
    status.asked.is_some() || !is_new
}

/// Whether something of a volume may be on an array.
pub fn may_be_there(status: &VolumeStatus) -> bool {
    !status.id.is_empty() || !status.cg_id.is_empty() || has_begun(status)
}
