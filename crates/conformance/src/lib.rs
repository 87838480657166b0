//! Does a CSI driver keep the specification's promises?
//!
//! [`run`] is the command `stowage conformance`; [`conformance`] is the same for programs. The driver is a socket and
//! nothing else, so any driver can be tested, written in whatever language.
//!
//! What happens, in order, and where:
//! - `args` what was typed; `options` what it means, with `input` files, `quantity` sizes and `secrets`
//! - `driver` connects, waits until it is ready and asks what it can do; `capability` holds the answers
//! - `filter` chooses from `cases`, which are the specification, one small function per promise (`case`)
//! - `suite` runs them; each gets a `scene` with requests, names and `places`, which cleans up after it
//! - `check` compares what was expected with what the driver did
//! - `report` on a terminal, as `JUnit` and as JSON; `command` puts it all together
//!
//! A case must never print, and must call the driver through its scene if the call makes anything.

mod args;
mod capability;
mod case;
mod cases;
mod check;
mod command;
mod driver;
mod filter;
mod input;
mod options;
mod places;
mod quantity;
mod report;
mod scene;
mod secrets;
mod suite;

pub use self::args::ConformanceArgs;
pub use self::command::{Console, Verdict, run, run_on};
pub use self::driver::DriverError;
pub use self::filter::{Filter, FilterError};
pub use self::input::InputError;
pub use self::options::{AccessType, Options, OptionsError, PlaceOptions};
pub use self::quantity::QuantityError;
pub use self::report::{CaseReport, Counts, DriverReport, Failure, Outcome, Report};
pub use self::secrets::{Secrets, UnknownSecretKind};
pub use self::suite::{Event, RunError, conformance};
