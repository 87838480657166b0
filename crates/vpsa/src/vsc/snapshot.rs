//! Snapshot: taken on the array of its volume, renamed, deleted; or only recorded, if somebody else took it.
//!
//! - [`step`]: what is to be done next (pure).
//! - [`reconcile`]: does the steps.
//!
//! Where it is to be taken is recorded before it is, so whoever continues after a crash looks at the right place. A
//! snapshot without a known identity is found by its name among those of its volume.

pub mod reconcile;
pub mod step;

pub use reconcile::Snapshots;
