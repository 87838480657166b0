//! What the REST clients of arrays share.
//!
//! - [`address`]: where an array is, as people write it.
//! - [`trust`]: an HTTP client that trusts the authorities it should, a certificate nobody else has signed, or anybody.
//! - [`transport`]: why a request was not answered.
//! - [`deadline`]: the moment at which a caller gives up.
//! - [`lenient`]: numbers and switches, in every spelling that arrays use.
//!
//! Nothing here knows a certain array, retries, or logs.

pub mod address;
pub mod deadline;
pub mod lenient;
pub mod transport;
pub mod trust;

pub use address::{Address, AddressError};
pub use deadline::Deadline;
pub use transport::Unanswered;
pub use trust::{Trust, TrustError, http_client};
