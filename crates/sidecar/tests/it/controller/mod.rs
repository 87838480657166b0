//! The controller's roles beside a driver in memory, against a real API server and its controllers.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod ahead;
mod bad_driver;
mod bad_input;
mod bad_journal;
mod crash;
mod deletion;
mod in_tree;
mod interchange;
mod kept;
mod leases;
mod lifecycle;
mod node_deployment;
mod old_intents;
mod outage;
mod rbac;
mod request;
mod silence;
mod sources;
mod taken_away;
mod topology;
mod uninstalling;
