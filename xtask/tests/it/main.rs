//! What stands around the code: the wrapper that people type, and what clippy is told.

#![allow(clippy::disallowed_methods, reason = "this runs programs")]
// A test that cannot go on should say where: that is what unwrap does.
#![allow(clippy::unwrap_used)]

mod bans;
mod wrapper;
