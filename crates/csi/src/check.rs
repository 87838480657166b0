//! Is a request complete and within limits? Every RPC of a driver asks this before anything else:
//! `let request = RULES.checked(request)?`.
//!
//! `requests.rs` is the table: one block per request, one line per rule. The codes are the specification's, so that
//! callers and the conformance suite get the same from every driver. What only a driver can know (does the volume
//! exist, is that mode supported) is not in here.

mod requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use tonic::{Code, Request, Status};

use crate::proto::SERVICE_ACCOUNT_TOKENS;
use crate::proto::csi::controller_service_capability::rpc::Type as ControllerRpc;
use crate::proto::csi::node_service_capability::rpc::Type as NodeRpc;
use crate::proto::csi::volume_capability::access_mode::Mode;
use crate::proto::csi::{CapacityRange, VolumeCapability};

/// General limit of a string, and therefore of a name.
const STRING_BYTES: usize = 128;
const NODE_ID_BYTES: usize = 256;
/// All keys and values of a map together; also all mount flags together.
const MAP_BYTES: usize = 4 * 1024;
/// The longest path Linux takes, without its closing zero.
const PATH_BYTES: usize = 4095;

/// What the checks must know about a driver. The capabilities are the ones it advertises, so that a request
/// which uses anything else is refused without further code.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// What `ControllerGetCapabilities` answers.
    pub controller: &'a [ControllerRpc],
    /// What `NodeGetCapabilities` answers.
    pub node: &'a [NodeRpc],
    /// Longest volume or snapshot id. The specification says 128; drivers whose ids hold a path
    /// have longer ones in use.
    pub id_bytes: usize,
}

/// A request that knows its rules.
pub trait Check {
    /// The first rule that is broken, if any. Called twice: the same answer.
    fn check(&self, rules: &Rules<'_>) -> Result<(), Violation>;
}

/// A broken rule. Names fields as the protocol does.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Violation {
    /// A required field is empty or absent.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// More bytes than the limit.
    #[error("{field} is {length} bytes long: at most {limit} are allowed")]
    TooLong {
        /// The field.
        field: &'static str,
        /// What was sent.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// A name with a character the specification forbids.
    #[error("{0} contains a control character")]
    ControlCharacter(&'static str),
    /// A path that is relative or holds a zero byte.
    #[error("{0} is not an absolute path")]
    NotAPath(&'static str),
    /// A number below zero.
    #[error("{0} is negative")]
    Negative(&'static str),
    /// An enum value from a newer specification, or none.
    #[error("{field} has the unknown value {value}")]
    UnknownValue {
        /// The field.
        field: &'static str,
        /// What was sent.
        value: i32,
    },
    /// The caller uses what the driver does not advertise.
    #[error("{0} is not supported by this driver")]
    Unsupported(&'static str),
    /// No size fits.
    #[error("limit_bytes is {limit}, less than required_bytes, which is {required}")]
    EmptyRange {
        /// `required_bytes`.
        required: i64,
        /// `limit_bytes`.
        limit: i64,
    },
    /// A metadata stream cannot start there.
    #[error("starting_offset is negative")]
    OffsetOutOfRange,
    /// The driver stages volumes, and this one was not.
    #[error("staging_target_path is missing: this driver publishes staged volumes only")]
    NotStaged,
}

impl Violation {
    /// The code the specification asks for.
    pub fn code(&self) -> Code {
        match self {
            Self::Missing(_)
            | Self::TooLong { .. }
            | Self::ControlCharacter(_)
            | Self::NotAPath(_)
            | Self::Negative(_)
            | Self::UnknownValue { .. }
            | Self::Unsupported(_) => Code::InvalidArgument,
            Self::EmptyRange { .. } | Self::OffsetOutOfRange => Code::OutOfRange,
            Self::NotStaged => Code::FailedPrecondition,
        }
    }
}

impl From<Violation> for Status {
    fn from(violation: Violation) -> Self {
        Self::new(violation.code(), violation.to_string())
    }
}

impl<'a> Rules<'a> {
    /// Rules for a driver with these capabilities and ids as short as the specification wants them.
    pub const fn new(controller: &'a [ControllerRpc], node: &'a [NodeRpc]) -> Self {
        Self {
            controller,
            node,
            id_bytes: STRING_BYTES,
        }
    }

    /// The message of a request, if it keeps these rules.
    pub fn checked<R: Check>(&self, request: Request<R>) -> Result<R, Status> {
        let message = request.into_inner();
        message.check(self)?;
        Ok(message)
    }

    fn needs(&self, capability: ControllerRpc, what: &'static str) -> Result<(), Violation> {
        if self.controller.contains(&capability) {
            Ok(())
        } else {
            Err(Violation::Unsupported(what))
        }
    }

    /// The id of a volume, snapshot or group.
    fn id(&self, field: &'static str, id: &str) -> Result<(), Violation> {
        required(field, id.is_empty())?;
        self.optional_id(field, id)
    }

    fn optional_id(&self, field: &'static str, id: &str) -> Result<(), Violation> {
        limited(field, id.len(), self.id_bytes)
    }

    fn ids(&self, field: &'static str, ids: &[String]) -> Result<(), Violation> {
        ids.iter().try_for_each(|id| self.id(field, id))
    }
}

fn required(field: &'static str, is_missing: bool) -> Result<(), Violation> {
    if is_missing {
        Err(Violation::Missing(field))
    } else {
        Ok(())
    }
}

fn limited(field: &'static str, length: usize, limit: usize) -> Result<(), Violation> {
    if length > limit {
        Err(Violation::TooLong {
            field,
            length,
            limit,
        })
    } else {
        Ok(())
    }
}

/// The key of a call that creates something. Any Unicode but most control characters; tab and line ends are allowed.
fn name(field: &'static str, name: &str) -> Result<(), Violation> {
    required(field, name.is_empty())?;
    limited(field, name.len(), STRING_BYTES)?;
    if name
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
    {
        return Err(Violation::ControlCharacter(field));
    }
    Ok(())
}

fn node_id(field: &'static str, id: &str) -> Result<(), Violation> {
    limited(field, id.len(), NODE_ID_BYTES)
}

/// A path that must be there and absolute.
fn path(field: &'static str, path: &str) -> Result<(), Violation> {
    existing_path(field, path)?;
    if Path::new(path).is_absolute() {
        Ok(())
    } else {
        Err(Violation::NotAPath(field))
    }
}

/// A path at which something should be. A relative one is not refused: nothing of ours is there, and the
/// conformance suite expects `NOT_FOUND` for it.
fn existing_path(field: &'static str, path: &str) -> Result<(), Violation> {
    required(field, path.is_empty())?;
    limited(field, path.len(), PATH_BYTES)?;
    if path.contains('\0') {
        return Err(Violation::NotAPath(field));
    }
    Ok(())
}

/// Parameters and contexts. Secrets are not measured: certificates in use today are larger than the limit.
fn map(field: &'static str, map: &BTreeMap<String, String>) -> Result<(), Violation> {
    let length = map
        .iter()
        // The kubelet adds the tokens without asking about sizes; a pod must not fail to start for them.
        .filter(|(key, _)| *key != SERVICE_ACCOUNT_TOKENS)
        .map(|(key, value)| key.len() + value.len())
        .sum();
    limited(field, length, MAP_BYTES)
}

fn not_negative(field: &'static str, number: i64) -> Result<(), Violation> {
    if number < 0 {
        Err(Violation::Negative(field))
    } else {
        Ok(())
    }
}

/// A size. An absent range is fine; one that says nothing is not.
fn range(range: Option<&CapacityRange>) -> Result<(), Violation> {
    let Some(range) = range else { return Ok(()) };
    let (required, limit) = (range.required_bytes, range.limit_bytes);
    not_negative("required_bytes", required)?;
    not_negative("limit_bytes", limit)?;
    if required == 0 && limit == 0 {
        return Err(Violation::Missing("capacity_range"));
    }
    if limit != 0 && limit < required {
        return Err(Violation::EmptyRange { required, limit });
    }
    Ok(())
}

/// Capabilities of which there must be at least one.
fn capabilities(capabilities: &[VolumeCapability]) -> Result<(), Violation> {
    required("volume_capabilities", capabilities.is_empty())?;
    capabilities.iter().try_for_each(well_formed)
}

/// A capability that must be there.
fn capability(capability: Option<&VolumeCapability>) -> Result<(), Violation> {
    well_formed(capability.ok_or(Violation::Missing("volume_capability"))?)
}

/// Says block or mount, and from where it is written to.
fn well_formed(capability: &VolumeCapability) -> Result<(), Violation> {
    use crate::proto::csi::volume_capability::AccessType;

    match &capability.access_type {
        None => return Err(Violation::Missing("access_type (block or mount)")),
        Some(AccessType::Block(_)) => {}
        Some(AccessType::Mount(mount)) => {
            let flags = mount.mount_flags.iter().map(String::len).sum();
            limited("mount_flags", flags, MAP_BYTES)?;
            limited("fs_type", mount.fs_type.len(), STRING_BYTES)?;
            let group = &mount.volume_mount_group;
            limited("volume_mount_group", group.len(), STRING_BYTES)?;
        }
    }
    let mode = capability.access_mode.as_ref().map_or(0, |mode| mode.mode);
    match Mode::try_from(mode) {
        Ok(Mode::Unknown) => Err(Violation::Missing("access_mode")),
        Ok(_) => Ok(()),
        Err(_) => Err(Violation::UnknownValue {
            field: "access_mode",
            value: mode,
        }),
    }
}
