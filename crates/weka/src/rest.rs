//! The REST client of a Weka cluster.
//!
//! - [`endpoint`]: addresses, and moving on from one that fails.
//! - [`client`]: one client per secret; sends calls, repeats them elsewhere when an endpoint fails.
//! - [`call`]: one call, and what its answer means.
//! - [`session`]: logs in once for many callers.
//! - [`facts`]: release, role and identity of the cluster, kept current in the background.
//! - [`recent`]: filesystems that were looked up a moment ago.
//! - [`api`]: the calls that the driver makes, one function each.
//! - [`wire`]: their answers as the array spells them.
//! - [`trust`]: certificates of HTTPS.
//! - [`clusters`]: all clients of the process, by secret.
//! - [`error`]: why a call fails.
//!
//! Clients share nothing: a cluster that does not answer slows down nobody who asks another one. No error, log line
//! or metric holds a value of a secret.

pub(crate) mod api;
mod call;
pub(crate) mod client;
pub(crate) mod clusters;
pub(crate) mod endpoint;
pub(crate) mod error;
pub(crate) mod facts;
mod recent;
mod session;
#[cfg(test)]
mod tests;
mod trust;
pub(crate) mod wire;

pub(crate) use api::Api;
pub(crate) use clusters::Clusters;
pub(crate) use error::ApiError;
pub(crate) use stowage_rest::Deadline;
