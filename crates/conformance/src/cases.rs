//! The cases, one file per subject. A group is listed here once and runs in this order.

mod identity;

use crate::case::Group;

/// All of them.
pub(crate) const GROUPS: &[&Group] = &[
    &identity::IDENTITY,
];
