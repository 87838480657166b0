//! The cases, one file per subject. A group is listed here once and runs in this order.

mod controller;
mod create_volume;
mod expand;
mod group_snapshots;
mod identity;
mod list_snapshots;
mod modify;
mod publish;
mod snapshots;
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
    &list_snapshots::LIST,
    &snapshots::GET,
    &snapshots::DELETE,
    &snapshots::CREATE,
    &expand::EXPAND,
    &modify::MODIFY,
    &group_snapshots::GROUP_SNAPSHOTS,
];
