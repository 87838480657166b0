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
//! - `check` compares what was expected with what came
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

pub use self::{
    args::ConformanceArgs,
    command::{Console, Verdict, run, run_on},
    driver::DriverError,
    filter::{Filter, FilterError},
    input::InputError,
    options::{AccessType, Options, OptionsError, PlaceOptions},
    quantity::QuantityError,
    report::{CaseReport, Counts, DriverReport, Failure, Outcome, Report},
    secrets::{Secrets, UnknownSecretKind},
    suite::{Event, RunError, conformance},
};
