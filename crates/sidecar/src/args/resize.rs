//! The flags of resizing and modifying.

use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use stowage_kubernetes::queue::Backoff;
use stowage_service::duration;

use super::{ArgsError, Common, Retry};

const HEADING: &str = "Resizing and modifying";

/// Flags of resizing and modifying.
#[derive(clap::Args, Clone, Debug)]
pub struct ResizeArgs {
    /// Like --timeout, to resize only
    #[arg(long, alias = "csiTimeout", value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub resizer_timeout: Option<Duration>,

    /// Like --worker-threads, to resize only
    #[arg(long, alias = "workers", value_name = "NUMBER", help_heading = HEADING, value_parser = clap::value_parser!(u16).range(1..))]
    pub resizer_worker_threads: Option<u16>,

    /// Like --retry-interval-start, to resize and to modify only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub resizer_retry_interval_start: Option<Duration>,

    /// Like --retry-interval-max, to resize and to modify only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub resizer_retry_interval_max: Option<Duration>,

    /// After a driver refused to resize a volume in use, wait until no pod uses it; pods are watched only then
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", help_heading = HEADING)]
    pub handle_volume_inuse_error: bool,

    /// Pass the names of claim and volume to the driver when a volume is modified
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", help_heading = HEADING)]
    pub extra_modify_metadata: bool,
}

/// How volumes are resized.
#[derive(Clone, Debug)]
pub(crate) struct Resize {
    pub(crate) workers: usize,
    pub(crate) timeout: Duration,
    pub(crate) retry: Backoff,
    /// After a refusal because of use, wait for the pods to go.
    pub(crate) wait_for_pods: bool,
    /// Tell the driver the names of claim and volume with each modification.
    pub(crate) modify_metadata: bool,
}

impl ResizeArgs {
    pub(super) fn settings(&self, common: Common) -> Result<Resize, ArgsError> {
        Ok(Resize {
            workers: common.workers(self.resizer_worker_threads, 10),
            timeout: common.timeout(self.resizer_timeout, 10),
            retry: common.retry(
                "resizer-",
                Retry {
                    start: self.resizer_retry_interval_start,
                    max: self.resizer_retry_interval_max,
                },
            )?,
            wait_for_pods: self.handle_volume_inuse_error,
            modify_metadata: self.extra_modify_metadata,
        })
    }
}
