//! The REST client of one array.
//!
//! - [`client`]: sends calls, a few at a time, with the access key that nobody else sees.
//! - [`api`]: the calls, one function each.
//! - [`id`]: identities that the array gives.
//! - [`wire`]: objects as the array spells them.
//! - `envelope`: what is around every answer: HTTP 200 and a status inside, whatever happened.
//! - [`refusal`]: the table from codes and messages to what they mean.
//! - [`error`]: why a call fails.
//! - [`follow`]: work that the array has taken on and not finished.
//!
//! Reads are repeated when nobody answers; changes are not, because one that got no answer may have been made: whoever
//! wants it looks again. Clients share nothing: an array that does not answer slows down nobody who asks another one.

pub mod api;
mod call;
pub mod client;
mod envelope;
pub mod error;
pub mod follow;
pub mod id;
pub mod refusal;
pub mod wire;

pub use api::Api;
pub use client::{Client, ClientOptions};
pub use error::ApiError;
pub use follow::{Outcome, follow};
pub use id::{CgId, PoolId, ServerId, SnapshotId, VolumeId};
pub use refusal::Refusal;
pub use stowage_rest::{Address, Deadline, Trust};
