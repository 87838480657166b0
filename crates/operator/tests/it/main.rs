//! All tests of this crate that are not beside its code: one program, so that what they need is linked once.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod generator;
mod reconcile;
mod told;
mod weka;
