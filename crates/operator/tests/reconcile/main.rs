//! Reconciles against a real API server. There are no kubelets and no controllers: what those would write, tests write.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod adoption;
mod collisions;
mod deletion;
mod draining;
mod drift;
mod faults;
mod fleet;
mod in_use;
mod installed;
mod pods;
mod refusals;
mod rig;
mod rights;
mod running;
mod scenarios;
mod statuses;
mod storm;
