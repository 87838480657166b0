//! The flags of provisioning.

use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use stowage_kubernetes::queue::Backoff;
use stowage_service::duration;

use super::{ArgsError, Common, Naming, Retry};

const HEADING: &str = "Provisioning";

/// Flags of provisioning.
#[derive(clap::Args, Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches of the command line"
)]
pub struct ProvisionArgs {
    /// First part of the names of volumes
    #[arg(long, value_name = "PREFIX", default_value = "pvc", help_heading = HEADING)]
    pub volume_name_prefix: String,

    /// How much of the claim's uid goes into the name of its volume; -1 is all of it
    #[arg(long, value_name = "LENGTH", default_value_t = -1, allow_negative_numbers = true, help_heading = HEADING)]
    pub volume_name_uuid_length: i16,

    /// Pass the names of claim and volume, and of snapshot and content, to the driver
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = HEADING)]
    pub extra_create_metadata: bool,

    /// Require volumes to be made where the pod is to run, instead of preferring it
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = HEADING)]
    pub strict_topology: bool,

    /// Pass the topology of the cluster to the driver even if no pod waits for the volume
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", help_heading = HEADING)]
    pub immediate_topology: bool,

    /// Attach volumes read-only if ReadOnlyMany is their only access mode
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = HEADING)]
    pub controller_publish_readonly: bool,

    /// Refuse to restore a snapshot into the other volume mode
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", help_heading = HEADING)]
    pub prevent_volume_mode_conversion: bool,

    /// Features of the Go sidecars. `Topology=false` switches topology off; the others have no effect
    #[arg(long, value_name = "GATE=BOOL", value_delimiter = ',', num_args = 0..=1, help_heading = HEADING)]
    pub feature_gates: Vec<String>,

    /// Like --timeout, to provision only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub provisioner_timeout: Option<Duration>,

    /// Like --worker-threads, to provision only
    #[arg(long, value_name = "NUMBER", help_heading = HEADING, value_parser = clap::value_parser!(u16).range(1..))]
    pub provisioner_worker_threads: Option<u16>,

    /// Like --retry-interval-start, to provision only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub provisioner_retry_interval_start: Option<Duration>,

    /// Like --retry-interval-max, to provision only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub provisioner_retry_interval_max: Option<Duration>,
}

/// How volumes are provisioned.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches of the command line"
)]
pub(crate) struct Provision {
    pub(crate) workers: usize,
    pub(crate) timeout: Duration,
    pub(crate) retry: Backoff,
    pub(crate) naming: Naming,
    pub(crate) extra_metadata: bool,
    /// Volumes of a driver with topology are made in places.
    pub(crate) topology: bool,
    pub(crate) strict_topology: bool,
    pub(crate) immediate_topology: bool,
    pub(crate) publish_read_only: bool,
    pub(crate) keep_volume_mode: bool,
}

impl ProvisionArgs {
    pub(super) fn settings(&self, common: Common) -> Result<Provision, ArgsError> {
        Ok(Provision {
            workers: common.workers(self.provisioner_worker_threads, 100),
            timeout: common.timeout(self.provisioner_timeout, 10),
            retry: common.retry(
                "provisioner-",
                Retry {
                    start: self.provisioner_retry_interval_start,
                    max: self.provisioner_retry_interval_max,
                },
            )?,
            naming: Naming::new(
                ["volume-name-prefix", "volume-name-uuid-length"],
                &self.volume_name_prefix,
                self.volume_name_uuid_length,
            )?,
            extra_metadata: self.extra_create_metadata,
            topology: topology(&self.feature_gates)?,
            strict_topology: self.strict_topology,
            immediate_topology: self.immediate_topology,
            publish_read_only: self.controller_publish_readonly,
            keep_volume_mode: self.prevent_volume_mode_conversion,
        })
    }
}

/// Whether topology is on, which is the default. The last word counts, as in the Go sidecars.
fn topology(gates: &[String]) -> Result<bool, ArgsError> {
    let mut on = true;
    for gate in gates {
        if let Some(("Topology", value)) = gate.trim().split_once('=') {
            on = match value {
                "1" | "t" | "T" | "true" | "True" | "TRUE" => true,
                "0" | "f" | "F" | "false" | "False" | "FALSE" => false,
                _ => return Err(ArgsError::FeatureGate(gate.clone())),
            };
        }
    }
    Ok(on)
}
