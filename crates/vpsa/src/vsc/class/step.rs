//! What is to be done next for a VSCStorageClass, and what its members are together. Nothing here does anything.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use stowage_api::quantity;
use stowage_api::vpsa::{
    Capacity, CapacityMode, ClassCounters, ClassState, Vpsa, VpsaState, VscStorageClassStatus,
};

use crate::vsc::condition::{self, Reason};

/// What is so, beside the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The object is held until we have let go.
    pub held: bool,
    /// The object is to go.
    pub deleting: bool,
    /// Storage classes that name none get this one.
    pub is_default: bool,
    /// Others that say the same.
    pub other_defaults: Vec<String>,
    /// How many volumes it has.
    pub volumes: usize,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hold the object until we have let go.
    Hold,
    /// Say how it is.
    Record(ClassState, Reason),
    /// Let the object go.
    LetGo,
    /// Nothing.
    Rest,
}

/// What is to be done next. [`Step::Record`] is the last: whoever has recorded it rests.
pub fn next_step(observed: &Observed, members: &[&Vpsa]) -> Step {
    if observed.deleting {
        return leave(observed, members);
    }
    if !observed.held {
        return Step::Hold;
    }
    let sick: Vec<String> = members
        .iter()
        .filter_map(|member| sickness(member))
        .collect();
    if !sick.is_empty() {
        let reason = Reason::not_ready("MemberNotReady", sick.join("; "));
        return Step::Record(ClassState::Failed, reason);
    }
    if observed.is_default && !observed.other_defaults.is_empty() {
        let message = format!(
            "{} is a default class, too: volumes that name no class are refused until only one is",
            observed.other_defaults.join(", ")
        );
        return Step::Record(ClassState::Ready, Reason::ready("SeveralDefaults", message));
    }
    let message = match members.len() {
        0 => "it has no VPSA yet".to_owned(),
        count => format!("{count} VPSAs"),
    };
    Step::Record(ClassState::Ready, Reason::ready("Ready", message))
}

fn leave(observed: &Observed, members: &[&Vpsa]) -> Step {
    let hold = |word, message: String| {
        let reason = Reason::not_ready(word, message);
        Step::Record(ClassState::Deleting, reason)
    };
    if !observed.held {
        return Step::Rest;
    }
    if observed.is_default {
        let message = "it is the default class: set `isDefault` to false, and it goes";
        return hold("DefaultClass", message.to_owned());
    }
    if !members.is_empty() {
        let names: Vec<String> = members.iter().map(|it| it.name_any()).collect();
        let message = format!(
            "it has members: delete or move {}, and it goes",
            names.join(", ")
        );
        return hold("HasMembers", message);
    }
    if observed.volumes > 0 {
        let message = format!(
            "it has {} volumes: delete them, and it goes",
            observed.volumes
        );
        return hold("HasVolumes", message);
    }
    Step::LetGo
}

/// Whether an array in this state cannot be used.
pub fn is_sick(state: &VpsaState) -> bool {
    use VpsaState::{Failed, Incompatible, Unreachable};
    matches!(state, Incompatible | Unreachable | Failed)
}

/// Which member is sick, why, and since when.
fn sickness(member: &Vpsa) -> Option<String> {
    let status = member.status.as_ref().filter(|it| is_sick(&it.state))?;
    let condition = condition::ready(&status.observed);
    let since = condition.map(|it| format!(" since {}", it.last_transition_time.0));
    let message = condition.map(|it| format!(": {}", it.message));
    Some(format!(
        "{} is {}{}{}",
        member.name_any(),
        status.state,
        since.unwrap_or_default(),
        message.unwrap_or_default()
    ))
}

/// The members, taken together: sums, and the worst mode. What is not known of a member counts nothing.
pub fn aggregate(
    before: &VscStorageClassStatus,
    state: ClassState,
    members: &[&Vpsa],
) -> VscStorageClassStatus {
    let statuses = members.iter().filter_map(|member| member.status.as_ref());
    let mut counters = ClassCounters {
        vpsa: i64::try_from(members.len()).unwrap_or(i64::MAX),
        ..ClassCounters::default()
    };
    let (mut total, mut available, mut mode) = (0_i64, 0_i64, CapacityMode::Normal);
    for status in statuses {
        if let Some(capacity) = &status.capacity {
            total = total.saturating_add(bytes(&capacity.total));
            available = available.saturating_add(bytes(&capacity.available));
            mode = mode.max(capacity.mode.clone());
        }
        if let Some(counted) = &status.counters {
            counters.pools += counted.pools;
            counters.snapshots += counted.snapshots;
            counters.volumes += counted.volumes;
        }
    }
    VscStorageClassStatus {
        state,
        capacity: Some(Capacity {
            total: Quantity(quantity::text(total)),
            available: Quantity(quantity::text(available)),
            mode,
            ..Capacity::default()
        }),
        counters: Some(counters),
        ..before.clone()
    }
}

fn bytes(quantity: &Quantity) -> i64 {
    quantity::size(&quantity.0).unwrap_or(0)
}

#[cfg(test)]
mod tests;
