//! VPSA: an array is checked, its volumes are taken note of, it is watched over, and let go.
//!
//! - [`facts`]: what the array says of itself.
//! - [`step`]: what is to be done next (pure).
//! - [`status`]: what is said about it (pure).
//! - [`applied`]: what `kubectl apply` remembers of it, its token included (pure).
//! - [`import`]: records of what is there already.
//! - [`drift`]: who has to look again, because the array has something else (pure).
//! - [`reconcile`]: does the steps.

pub mod applied;
pub mod drift;
pub mod facts;
pub mod import;
pub mod reconcile;
pub mod status;
pub mod step;

pub use facts::Facts;
pub use reconcile::Arrays;
