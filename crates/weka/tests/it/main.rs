//! The driver over a real socket, as weka.md starts it, with real mounts of a simulated Weka cluster. Needs root.
//!
//! Each test runs in a process with mounts of its own ([`devcluster::isolated`]). The cluster and its client, which serves
//! filesystems over FUSE, are in the test's process; the driver is there too or, where it is killed, in one of its own.
//! `mount -t wekafs` finds the simulator's helper.
//!
//! - `backings`: volumes that are filesystems or snapshots.
//! - `bad_input`: secrets, sizes, options and clusters that cannot be right.
//! - `inventory`: condition and figures of all volumes, and their snapshots; `figures`: the same in trouble, and by whom.
//! - `kubernetes`: labels and annotations.
//! - `lifecycle`: a volume from its creation to its end, over the API and without, and static volumes.
//! - `migrate`: volumes from before there were quotas.
//! - `conformance`: the whole suite.
//! - `crash`: `kill -9` at every step; `crash_backings`: the same where filesystems and snapshots are made.
//! - `events`: what a user hears of a claim that waits, with our sidecar.
//! - `foreign`: names, options, limits and secrets that this driver has not chosen.
//! - `hidden`: who else sees what the driver mounts.
//! - `hostile`: handles and links that lead elsewhere.
//! - `snapshots`: snapshots of volumes, restores and clones.
//! - `stuck`: a mount that does not end and cannot be killed.
//! - `taken_over`: volumes that WEKA's own plugin made and published.
//! - `trouble`: an array in trouble, and requests that make no sense.
//! - `nfs`: mounts by NFS, and from the client to it and back.
//! - `other_cluster`: a node that is no client of the cluster that is asked for.
//! - `policy`: the SELinux policy for nodes; `selinux`: labels of mounts there.
//! - `capacity`: all volumes of a filesystem together, and grace periods.
//! - `client`: what the Weka client of a node may do: refuse, hang, go away, serve two clusters.

#![allow(clippy::disallowed_methods, reason = "tests run programs")]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod backings;
mod bad_input;
mod capacity;
mod client;
mod cluster;
mod conformance;
mod crash;
mod crash_backings;
mod events;
mod figures;
mod foreign;
mod helper;
mod hidden;
mod hostile;
mod inventory;
mod kubernetes;
mod lifecycle;
mod migrate;
mod nfs;
mod other_cluster;
mod policy;
mod rig;
mod selinux;
mod snapshots;
mod stuck;
mod taken_over;
mod trouble;
