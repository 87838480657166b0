//! The flags of attaching.

use std::time::Duration;

use stowage_kubernetes::queue::Backoff;
use stowage_service::duration;

use super::{ArgsError, Common, Retry};

const HEADING: &str = "Attaching";

/// Flags of attaching.
#[derive(clap::Args, Clone, Debug)]
pub struct AttachArgs {
    /// Like --timeout, to attach only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub attacher_timeout: Option<Duration>,

    /// Like --worker-threads, to attach only
    #[arg(long, value_name = "NUMBER", help_heading = HEADING, value_parser = clap::value_parser!(u16).range(1..))]
    pub attacher_worker_threads: Option<u16>,

    /// Like --retry-interval-start, to attach only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub attacher_retry_interval_start: Option<Duration>,

    /// Like --retry-interval-max, to attach only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub attacher_retry_interval_max: Option<Duration>,

    /// How often to compare attachments with what the driver lists, where it can list them; 0 is never
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1m", help_heading = HEADING)]
    pub reconcile_sync: Duration,

    /// How many volumes to list at a time for that; 0 leaves it to the driver
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..), help_heading = HEADING)]
    pub max_entries: i32,
}

/// How volumes are attached.
#[derive(Clone, Debug)]
pub(crate) struct Attach {
    pub(crate) workers: usize,
    pub(crate) timeout: Duration,
    pub(crate) retry: Backoff,
    /// `None`: never.
    pub(crate) compare_every: Option<Duration>,
    /// How many volumes are listed at a time; 0: as many as the driver likes.
    pub(crate) page: i32,
}

impl AttachArgs {
    pub(super) fn settings(&self, common: Common) -> Result<Attach, ArgsError> {
        Ok(Attach {
            workers: common.workers(self.attacher_worker_threads, 10),
            timeout: common.timeout(self.attacher_timeout, 15),
            retry: common.retry(
                "attacher-",
                Retry {
                    start: self.attacher_retry_interval_start,
                    max: self.attacher_retry_interval_max,
                },
            )?,
            compare_every: (!self.reconcile_sync.is_zero()).then_some(self.reconcile_sync),
            page: self.max_entries,
        })
    }
}
