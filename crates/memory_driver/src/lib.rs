//! A whole driver in memory, for tests of everything that calls a driver.
//!
//! [`MemoryDriver`] keeps every promise of the specification until it is told otherwise: `stowage conformance`
//! passes against it. What it has (volumes, snapshots, publications) belongs to the value and not to the socket, so
//! [`serve`](MemoryDriver::serve), [`stop`](Serving::stop) and `serve` again is a restart that forgets nothing; opened
//! on a directory it also outlives `kill -9` of its process.
//!
//! What a test can do to it, at any time:
//!
//! - [`Fault`]: a promise is broken from now on, for example volumes are smaller than asked for;
//! - [`Mishap`]: something happens to calls, so often as wanted: a refusal, a delay, a lost answer;
//! - [`Room`]: how much space there is, and where.
//!
//! What a test can read: volumes, snapshots, publications, calls by RPC, and the requests themselves.
//!
//! For tests that kill processes there is the program `stowage-memory-driver`, the same driver with a [`control`]
//! socket; [`DriverProcess`] starts, kills and commands it.

mod calls;
pub mod control;
mod controller;
mod driver;
mod fault;
mod identity;
mod journal;
mod mishap;
mod node;
#[allow(
    clippy::disallowed_methods,
    reason = "tests start a driver as a process and wait for it"
)]
mod process;
mod profile;
mod room;
mod serving;
mod state;

pub use self::driver::MemoryDriver;
pub use self::fault::Fault;
pub use self::mishap::{Mishap, Moment, Trouble};
pub use self::process::{DriverProcess, ProcessError};
pub use self::profile::{Expansion, Profile};
pub use self::room::Room;
pub use self::serving::{Services, Serving};
pub use self::state::{Access, KeptSnapshot, KeptVolume, Publication};
