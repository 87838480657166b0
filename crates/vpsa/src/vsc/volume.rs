//! Volume: made on an array, grown, renamed, deleted.
//!
//! - [`wanted`]: what the object asks for, in the array's terms (pure).
//! - [`step`]: what is to be done next (pure).
//! - [`reconcile`]: does the steps.
//!
//! The array that was chosen is recorded before anything is made there, so whoever continues after a crash looks at the right
//! one. A volume without a known identity is found by its name.

pub mod reconcile;
pub mod step;
pub mod wanted;

pub use reconcile::Volumes;
