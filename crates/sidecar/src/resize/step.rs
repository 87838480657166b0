//! What to do for a claim that asks for more, decided from what is known of the cluster. Pure.

#[cfg(test)]
mod tests;

use stowage_csi::proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
};
use tonic::Code;

use super::progress::{FILE_SYSTEM_RESIZE_PENDING, Progress, Stage};
use crate::access::{self, AccessError};
use crate::args::Settings;
use crate::cluster::volume::Volume;
use crate::driver::{Capabilities, Driver};
use crate::driver_call;

/// What is the same for all claims of a driver.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) driver: String,
    pub(super) mode: Mode,
    pub(super) single_node_multi_writer: bool,
    pub(super) default_fs_type: String,
}

/// Who makes volumes larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The controller, and then the node where it says so.
    Controller,
    /// The node alone: there is nobody to call here.
    NodeOnly,
    Nobody,
}

/// The next thing to do for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It has what it asks for, or it is the kubelet's turn.
    Rest,
    /// The filesystem has grown: the volume's object need not say any more how large the claim was.
    Tidy,
    /// Have the driver make the volume so large.
    Expand(i64),
    /// Let the node make the volume so large.
    HandOver(i64),
    /// The driver cannot.
    Refuse,
}

/// How the last call for a claim ended, where it did not succeed. It is lost with the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastCall {
    /// The driver may still be at work on this size: the same call must be made until there is a final answer.
    Open(i64),
    /// The driver said no.
    Refused,
}

impl Mode {
    pub(super) fn of(can: Capabilities) -> Self {
        if can.controller_service() && can.expand_volume() {
            Self::Controller
        } else if can.node_expand_volume() {
            Self::NodeOnly
        } else {
            Self::Nobody
        }
    }
}

impl Rules {
    pub(super) fn of(driver: &Driver, settings: &Settings) -> Self {
        let can = driver.capabilities();
        Self {
            driver: driver.name().to_string(),
            mode: Mode::of(can),
            single_node_multi_writer: can.single_node_multi_writer(),
            default_fs_type: settings.default_fs_type.clone(),
        }
    }
}

/// Decides. `size` is that of the volume's object, `grew` whether it says that its filesystem has yet to follow.
pub(super) fn next_step(
    mode: Mode,
    claim: &Progress,
    size: i64,
    grew: bool,
    last_call: Option<LastCall>,
) -> Step {
    if claim.requested <= claim.capacity {
        let tidy = grew && claim.capacity >= size;
        return if tidy { Step::Tidy } else { Step::Rest };
    }
    if mode == Mode::Nobody {
        return Step::Refuse;
    }
    match (target(mode, claim, size, last_call), mode) {
        (None, _) => Step::Rest,
        (Some(target), Mode::NodeOnly) => Step::HandOver(target),
        (Some(target), _) => Step::Expand(target),
    }
}

/// The size to reach now. An expansion that has begun is finished first, unless the driver refused it. `None`: it is
/// the kubelet's turn.
fn target(mode: Mode, claim: &Progress, size: i64, last_call: Option<LastCall>) -> Option<i64> {
    let requested = claim.requested;
    let begun = claim.allocated.unwrap_or(requested);
    let is_large_enough = size >= requested;
    match claim.stage {
        // Nothing has begun, or the server has no field for it and conditions are all there is.
        Stage::None if claim.allocated.is_none() => match last_call {
            Some(LastCall::Open(target)) => Some(target),
            _ if is_large_enough && claim.has(FILE_SYSTEM_RESIZE_PENDING) => None,
            _ => Some(requested),
        },
        Stage::None | Stage::ControllerInfeasible if !is_large_enough => Some(requested),
        Stage::NodePending | Stage::NodeInProgress => {
            (!is_large_enough && size < begun).then_some(begun)
        }
        Stage::NodeInfeasible if is_large_enough && mode == Mode::NodeOnly => Some(requested),
        Stage::ControllerInProgress if !is_large_enough && last_call == Some(LastCall::Refused) => {
            Some(requested)
        }
        Stage::None
        | Stage::NodeInfeasible
        | Stage::ControllerInProgress
        | Stage::ControllerInfeasible => Some(begun),
    }
}

/// The call, complete but for the secrets.
pub(super) fn request(
    rules: &Rules,
    volume: &Volume,
    target: i64,
) -> Result<ControllerExpandVolumeRequest, AccessError> {
    let mode = access::merged_mode(&volume.access_modes, rules.single_node_multi_writer)?;
    let fs_type = volume.csi.fs_type.as_deref();
    let capability = access::capability(
        mode,
        volume.block,
        fs_type.unwrap_or(&rules.default_fs_type),
        &volume.mount_options,
    );
    Ok(ControllerExpandVolumeRequest {
        volume_id: volume.csi.volume_handle.clone(),
        capacity_range: Some(CapacityRange {
            required_bytes: target,
            limit_bytes: 0,
        }),
        volume_capability: Some(capability),
        ..ControllerExpandVolumeRequest::default()
    })
}

/// What the driver made of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grown {
    pub(super) size: i64,
    /// The node has to follow.
    pub(super) on_node: bool,
}

/// An answer that cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the driver reports {made} bytes for the expanded volume, but {asked} were requested")]
pub(super) struct TooSmall {
    made: i64,
    asked: i64,
}

/// Reads the driver's answer. Some drivers leave the size out.
pub(super) fn grown(
    answer: &ControllerExpandVolumeResponse,
    target: i64,
) -> Result<Grown, TooSmall> {
    match answer.capacity_bytes {
        made if made != 0 && made < target => Err(TooSmall {
            made,
            asked: target,
        }),
        made => Ok(Grown {
            size: made.max(target),
            on_node: answer.node_expansion_required,
        }),
    }
}

/// What a driver's error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The driver may still be at work.
    Open,
    /// Not while it is in use.
    InUse,
    /// Not to this size, however often it is tried.
    Infeasible,
    Final,
}

impl Refusal {
    pub(super) fn of(code: Code) -> Self {
        match code {
            Code::ResourceExhausted => Self::Open,
            code if driver_call::may_be_running(code) => Self::Open,
            Code::FailedPrecondition => Self::InUse,
            Code::InvalidArgument | Code::OutOfRange | Code::NotFound => Self::Infeasible,
            _ => Self::Final,
        }
    }
}
