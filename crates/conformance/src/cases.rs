//! The cases, one file per subject. A group is listed here once and runs in this order.

mod controller;
mod create_volume;
mod expand;
mod identity;
mod modify;
mod publish;
mod volumes;

use crate::case::Group;

/// All of them.
pub(crate) const GROUPS: &[&Group] = &[
    &identity::IDENTITY,
    &controller::CAPABILITIES,
    &controller::CAPACITY,
    &volumes::LIST,
    &create_volume::CREATE,
    &volumes::DELETE,
    &volumes::VALIDATE,
    &publish::PUBLISH,
    &publish::LIFECYCLE,
    &publish::UNPUBLISH,
    &expand::EXPAND,
    &modify::MODIFY,
];
