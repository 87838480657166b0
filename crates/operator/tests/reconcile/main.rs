//! Reconciles against a real API server. There are no kubelets and no controllers: what those would write, tests write.

#![expect(
    clippy::unwrap_used,
    reason = "clippy exempts tests, but not the functions they share"
)]

mod additions;
mod adoption;
mod collisions;
mod deletion;
mod draining;
mod draining_trouble;
mod draining_users;
mod drift;
mod faults;
mod fleet;
mod in_use;
mod installed;
mod mounted;
mod pods;
mod refusals;
mod restricted;
mod rig;
mod rights;
mod rollouts;
mod running;
mod scenarios;
mod startup;
mod statuses;
mod storm;
#[path = "../told/mod.rs"]
mod told;
mod validation;
mod variants;
