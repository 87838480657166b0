//! VolumeAttachment: a node gets a Server record on the array, which all its attachments there share, and the volume is
//! attached to it. The record goes with the last of them.
//!
//! An array gives the number of a disk that it detached to the next one, and a node that still has the old one mounted would write
//! into that: so nothing is attached to such a node until it has said that the disk is gone there ([`in_use`]).
//!
//! - [`server`]: which Server record is a node's (pure).
//! - [`twin`]: which node has the initiator or the address of another (pure).
//! - [`step`]: what is to be done next (pure).
//! - [`reconcile`]: does the steps.

pub mod in_use;
pub mod reconcile;
pub mod server;
pub mod step;
pub mod twin;

use stowage_api::vpsa::FORGET;

pub use reconcile::Attachments;

/// What people do about a node that bars itself or others and does not come back.
pub fn how_to_forget(node: &str) -> String {
    format!(
        "If the machine of `{node}` does not come back, delete its Node, then let it go: `kubectl annotate vscnode {node} {FORGET}=yes`"
    )
}
