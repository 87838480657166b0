//! The REST client against the simulated array: every call, every refusal, every kind of trouble.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod calls;
mod lists;
mod refusals;
mod rig;
mod secrets;
mod submitted;
mod trouble;
mod versions;
