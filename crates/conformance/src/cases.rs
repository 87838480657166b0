//! The cases, one file per subject. A group is listed here once and runs in this order.

mod controller;
mod create_volume;
mod expand;
mod group_snapshots;
mod identity;
mod list_snapshots;
mod modify;
mod node_expand;
mod node_flow;
mod node_info;
mod node_publish;
mod node_stage;
mod node_stats;
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
    &node_info::CAPABILITIES,
    &node_info::INFO,
    &node_publish::PUBLISH,
    &node_publish::UNPUBLISH,
    &node_stage::STAGE,
    &node_stage::UNSTAGE,
    &node_stats::STATS,
    &node_expand::EXPAND,
    &node_flow::FLOW,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::GROUPS;
    use crate::filter::full_name;

    #[test]
    fn there_are_95_cases_with_different_names() {
        let cases = GROUPS
            .iter()
            .flat_map(|group| group.cases.iter().map(|case| full_name(group, case)));
        let names: Vec<_> = cases.collect();
        assert_eq!(names.len(), 95);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 95);
    }
}
