//! What tests stand on, whichever crate they are of. Only tests depend on it.
//!
//! | module | holds |
//! |---|---|
//! | [`pool`] | API servers that are lent to one test at a time and wiped in between, and some that many share |
//! | [`look`] | looking at a cluster with one client, and waiting for what will be there by watches |
//! | [`once`](mod@once) | what is done once for all tests, and turns that they wait for, whichever process they are in |

#![allow(
    clippy::unwrap_used,
    reason = "a test ends where it fails, also in what it shares with others"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a test that waits has its thread to itself"
)]

pub mod look;
pub mod once;
pub mod pool;

pub use look::{Look, eventually, eventually_or};
pub use once::{Turn, once, once_in_run, unique};
pub use pool::{
    Lent, api_server, api_server_with, define, once_at, shared, shared_control_plane, shared_for,
};
