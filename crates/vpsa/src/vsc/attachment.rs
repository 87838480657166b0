//! VolumeAttachment: a node gets a Server record on the array, which all its attachments there share, and the volume is
//! attached to it. The record goes with the last of them.
//!
//! - [`server`]: which Server record is a node's (pure).
//! - [`step`]: what is to be done next (pure).
//! - [`reconcile`]: does the steps.

pub mod reconcile;
pub mod server;
pub mod step;

pub use reconcile::Attachments;
