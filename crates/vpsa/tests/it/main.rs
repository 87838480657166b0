//! All tests of this crate that are not beside its code: one program, so that what they need is linked once.

mod driver;
mod rest;
mod vsc;
