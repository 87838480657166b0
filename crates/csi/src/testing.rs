//! For tests of drivers, behind the feature `testing`.
//!
//! - [`isolated`]: tests that mount, each in a process of its own.

pub mod isolated;
