//! The driver over a real socket, with real mounts of a simulated Weka cluster. Needs root.
//!
//! Each test runs in a process with mounts of its own ([`devcluster::isolated`]). The cluster and its client, which serves
//! filesystems over FUSE, are in the test's process; the driver is there too or, where it is killed, in one of its own.
//! `mount -t wekafs` finds the simulator's helper.
//!
//! - `bad_input`: secrets, sizes, options and clusters that cannot be right.
//! - `kubernetes`: labels and annotations.
//! - `lifecycle`: a volume from its creation to its end, over the API and without, and static volumes.
//! - `conformance`: the whole suite.
//! - `crash`: `kill -9` at every step.
//! - `events`: what a user hears of a claim that waits, with our sidecar.
//! - `foreign`: names, options, limits and secrets that this driver has not chosen.
//! - `hidden`: who else sees what the driver mounts.
//! - `hostile`: handles and links that lead elsewhere.
//! - `stuck`: a mount that does not end and cannot be killed.
//! - `trouble`: an array in trouble, and requests that make no sense.
//! - `other_cluster`: a node that is no client of the cluster that is asked for.
//! - `client`: what the Weka client of a node may do: refuse, hang, go away, serve two clusters.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod bad_input;
mod client;
mod cluster;
mod conformance;
mod crash;
mod events;
mod foreign;
mod helper;
mod hidden;
mod hostile;
mod kubernetes;
mod lifecycle;
mod other_cluster;
mod rig;
mod stuck;
mod trouble;
