//! A Weka cluster.
//!
//! | module | holds |
//! |---|---|
//! | [`array`] | [`Array`]: the whole of it, running in this process |
//! | [`args`] | [`Options`]: what can be chosen, also on the command line |
//! | [`core`] | state, journal, files and knobs together: what every request works on |
//! | [`release`] | versions, and what each brought |
//! | [`state`] | what the cluster knows, the decisions about it (pure), and the journal that outlives `kill -9` |
//! | [`rest`] | the REST API under `/api/v2` |
//! | [`control`] | faults, delays, upgrades: the [`Control`] client, and what answers it |
//! | [`backing`] | where the files of filesystems and snapshots are, and their inode numbers |
//! | [`client`] | the client container of a node, as an operator starts it |
//! | [`exports`] | who may mount filesystems by NFS |
//! | [`frontend`] | the data plane of a node: filesystems over FUSE |
//! | [`mount_helper`] | what `mount -t wekafs` calls |
//! | [`detached`] | mounts that show only when their filesystem answers |

pub mod args;
pub mod array;
pub mod backing;
pub mod client;
pub mod control;
pub mod core;
pub mod detached;
pub mod exports;
pub mod frontend;
pub mod mount_helper;
pub mod release;
pub mod rest;
pub mod state;

pub use args::{ClientOptions, FrontendArgs, FrontendOptions, Options};
pub use array::Array;
pub use client::Client;
pub use control::Control;
pub use frontend::Frontend;
