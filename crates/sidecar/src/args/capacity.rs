//! The flags of free capacity.

use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;

use super::ArgsError;
use crate::liveness::some_time;

const HEADING: &str = "Free capacity";

/// Flags of free capacity.
#[derive(clap::Args, Clone, Debug)]
pub struct CapacityArgs {
    /// Publish free capacity for the scheduler, in CSIStorageCapacity objects
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = HEADING)]
    pub enable_capacity: bool,

    /// Also for classes that bind at once, which the scheduler does not look at
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = HEADING)]
    pub capacity_for_immediate_binding: bool,

    /// How often to ask the driver, apart from each volume that is created or deleted
    #[arg(long, value_name = "DURATION", value_parser = some_time, default_value = "1m", help_heading = HEADING)]
    pub capacity_poll_interval: Duration,

    /// Owner of the objects: 0 is this pod, 1 its owner, 2 the owner of that, and so on; -1 is none
    #[arg(long, value_name = "LEVEL", default_value_t = 1, allow_negative_numbers = true, help_heading = HEADING,
        value_parser = clap::value_parser!(i8).range(-1..=5))]
    pub capacity_ownerref_level: i8,

    /// The namespace of the objects, which is this pod's
    #[arg(long, value_name = "NAMESPACE", env = "NAMESPACE", help_heading = HEADING)]
    pub capacity_namespace: Option<String>,

    /// The name of this pod
    #[arg(long, value_name = "NAME", env = "POD_NAME", help_heading = HEADING)]
    pub pod_name: Option<String>,
}

/// How free capacity is published.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    pub(crate) every: Duration,
    /// For classes that bind at once, too.
    pub(crate) immediate: bool,
    pub(crate) namespace: String,
    pub(crate) owner: Option<Owner>,
}

/// Who owns the objects of free capacity.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) pod: String,
    /// How many steps up from the pod.
    pub(crate) level: u8,
}

impl CapacityArgs {
    /// `None` without --enable-capacity.
    pub(super) fn settings(&self) -> Result<Option<Capacity>, ArgsError> {
        if !self.enable_capacity {
            return Ok(None);
        }
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let namespace = some(&self.capacity_namespace).ok_or(ArgsError::CapacityNamespace)?;
        let owner = match u8::try_from(self.capacity_ownerref_level) {
            Err(_) => None,
            Ok(level) => Some(Owner {
                pod: some(&self.pod_name).ok_or(ArgsError::CapacityPod)?,
                level,
            }),
        };
        Ok(Some(Capacity {
            every: self.capacity_poll_interval,
            immediate: self.capacity_for_immediate_binding,
            namespace,
            owner,
        }))
    }
}
