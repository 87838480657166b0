//! All tests of this crate that are not beside its code: one program, so that what they need is linked once.

mod capacity;
mod controller;
mod journal;
mod modify;
mod node;
mod resize;
mod snapshots;
