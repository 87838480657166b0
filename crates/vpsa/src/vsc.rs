//! The control plane: one process that leads keeps the custom resources and the arrays in step.
//!
//! Every kind has the same shape: what is wanted and what is there go into a pure `next_step`, one step is done, and it is
//! looked again. Nothing is remembered that a restart would need: it is in the objects and on the arrays.
//!
//! | module | holds |
//! |---|---|
//! | [`controller`] | start, lease, queues |
//! | [`cluster`] | the watches |
//! | [`array`] | VPSA: checked, imported, watched over, let go |
//! | [`class`] | VSCStorageClass: its members, taken together |
//! | [`volume`] | Volume: made on an array, grown, renamed, deleted |
//! | [`snapshot`] | Snapshot: taken, kept, deleted |
//! | [`nodes`] | VSCNode: goes with its Node; lost nodes are fenced, then their pods let go |
//! | [`attachment`] | VolumeAttachment: a Server record for the node, and the volume attached to it |
//! | [`allocator`], [`topology`] | which array a new volume goes to |
//! | [`cipher`] | secrets in fields that others can read |
//! | [`clients`], [`pools`] | a REST client for each array, as its object describes it, and its pools |
//! | [`reserved`] | room that was promised since an array last told how much it has |
//! | [`condition`], [`context`], [`write`] | what is said about objects, and how it is written |

pub mod allocator;
pub mod array;
pub mod attachment;
pub mod cipher;
pub mod class;
pub mod clients;
pub mod cluster;
pub mod condition;
pub mod context;
pub mod controller;
pub mod error;
pub mod nodes;
pub mod pools;
pub mod queues;
pub mod reserved;
pub mod snapshot;
pub mod topology;
pub mod volume;
#[cfg(test)]
pub mod worlds;
pub mod write;

pub use controller::{VscError, VscOptions, run};
