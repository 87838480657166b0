//! Simulators of storage arrays, as strict as the arrays themselves.
//!
//! A simulator is a state machine over a data directory. It uses the array's own wire format, refuses what the array
//! would refuse, and has a control API for what goes wrong with arrays: slow, refused, half-done, restarted.
//!
//! What they share: [`start`] (how they start), [`endpoints`] and [`ports`] (ports that stop and start), [`store`] (state that
//! outlives `kill -9`), [`faults`], [`trouble`] and [`control`] (what goes wrong, on purpose), [`files`] (directories served
//! over FUSE), [`handover`] (helpers and what they hand over), [`nfs`] (exports, and the hosts that mount them),
//! [`selinux`] (labels of mounts).
//!
//! - [`fuse_driver`]: a CSI driver whose mounts die with its process.
//! - [`vpsa`]: a Zadara VPSA: REST API, control API, disks over iSCSI, shares, and stand-ins for the tools of a host.
//! - [`weka`]: a Weka cluster: REST API, control API, exports over NFS, and a frontend that serves its filesystems over FUSE.

#![allow(
    clippy::disallowed_methods,
    reason = "a stand-in for an array, not part of the product; threads of FUSE may block"
)]

pub mod control;
pub mod endpoints;
pub mod faults;
pub mod files;
pub mod fuse_driver;
pub mod handover;
pub mod iscsi;
pub mod moment;
pub mod mounting;
pub mod nfs;
pub mod ports;
pub mod selinux;
pub mod start;
pub mod store;
pub mod trouble;
pub mod vpsa;
pub mod weka;
