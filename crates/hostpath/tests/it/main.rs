//! The driver over a real socket, with real loop devices, filesystems and mounts. Needs root.
//!
//! Each test runs in a process with mounts of its own ([`devcluster::isolated`]), so that nothing stays mounted
//! however it ends, and fails if a loop device is left.
//!
//! - `lifecycle`: a volume from its creation to its end, for each filesystem and for raw block.
//! - `copies`: snapshots, restores and clones, of volumes at rest and in use.
//! - `books`: what the controller tells: lists, pages, capacity, attachments, topology.
//! - `conformance`: the whole suite against the driver as a process.
//! - `inline`: volumes that live as long as a pod.
//! - `modify`: what can be changed about a volume.
//! - `publish`: which second call is fine and which is not.
//! - `home`: where the state directory is and may be.
//! - `expansion`: expansions that stop half way.
//! - `lost`: volumes whose filesystem is gone.
//! - `raw`: what was written last to a raw block volume.
//! - `trouble`: damaged state, full disks, missing tools, foreign mounts.
//! - `crash`: `kill -9` in the middle.
//! - `shared`: two processes on one state directory.
//! - `groups`: snapshots of several volumes at one moment, all or none.
//! - `hostile`: names and ids that nobody should send.
//! - `model`: random sequences of calls against a simple model, and the same call many times at once.
#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]
// Sizes are small here, and the wire has them signed.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]
// A test tells its story in one piece.
#![allow(
    clippy::too_many_lines,
    clippy::similar_names,
    clippy::many_single_char_names
)]
// The messages of a protocol have many fields and long names.
#![allow(clippy::default_trait_access, clippy::wildcard_imports)]

mod books;
mod conformance;
mod copies;
mod crash;
mod expansion;
mod groups;
mod home;
mod hostile;
mod inline;
mod lifecycle;
mod lost;
mod model;
mod modify;
mod publish;
mod raw;
mod rig;
mod shared;
mod support;
mod trouble;
