//! A Zadara VPSA.
//!
//! | module | holds |
//! |---|---|
//! | [`array`] | [`Array`]: the whole of it, running in this process |
//! | [`args`] | [`Options`]: what can be chosen, also on the command line |
//! | [`core`] | state, journal, data and knobs together: what every request works on |
//! | [`release`] | versions, and what each brought |
//! | [`state`] | what the array knows, and the decisions about it (pure) |
//! | [`rest`] | the REST API under `/api/` |
//! | [`control`] | faults, delays, upgrades: the [`Control`] client, and what answers it |
//! | [`backing`] | where the data of volumes and snapshots is |
//! | [`data`] | the ports for data: disks over iSCSI, shares |
//! | [`host`] | [`Host`]: what the kernel of a node does with them, and stand-ins for `mount.nfs` and `iscsiadm` |

pub mod args;
pub mod array;
pub mod backing;
pub mod control;
pub mod core;
pub mod data;
pub mod host;
pub mod release;
pub mod rest;
pub mod state;

pub use args::Options;
pub use array::Array;
pub use control::Control;
pub use host::{Host, HostOptions};
