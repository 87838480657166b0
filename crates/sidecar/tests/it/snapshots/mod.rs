//! The snapshot role beside a driver in memory, against a real API server. Contents are made by hand, as the
//! cluster-wide controller would.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod arriving;
mod deleting;
mod faults;
mod groups;
mod interchange;
mod making;
mod standing;
