//! Weka clients against a real API server: the whole operator with its watches, nodes and kubelets played by the tests.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod bad_input;
mod health;
mod installed;
mod killed;
mod kinds;
mod life;
mod limited;
mod mounts;
mod rig;
mod sharing;
mod switch;
#[path = "../told/mod.rs"]
mod told;
