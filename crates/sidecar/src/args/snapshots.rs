//! The flags of snapshots.

use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use stowage_kubernetes::queue::Backoff;
use stowage_service::duration;

use super::{ArgsError, Common, Naming, Retry};

const HEADING: &str = "Snapshots";

/// Flags of snapshots.
#[derive(clap::Args, Clone, Debug)]
pub struct SnapshotArgs {
    /// First part of the names of snapshots
    #[arg(long, value_name = "PREFIX", default_value = "snapshot", help_heading = HEADING)]
    pub snapshot_name_prefix: String,

    /// How much of the VolumeSnapshot's uid goes into the name of its snapshot; -1 is all of it
    #[arg(long, value_name = "LENGTH", default_value_t = -1, allow_negative_numbers = true, help_heading = HEADING)]
    pub snapshot_name_uuid_length: i16,

    /// First part of the names of group snapshots
    #[arg(long, value_name = "PREFIX", default_value = "groupsnapshot", help_heading = HEADING)]
    pub groupsnapshot_name_prefix: String,

    /// How much of the VolumeGroupSnapshot's uid goes into the name of its group snapshot; -1 is all of it
    #[arg(long, value_name = "LENGTH", default_value_t = -1, allow_negative_numbers = true, help_heading = HEADING)]
    pub groupsnapshot_name_uuid_length: i16,

    /// Like --extra-create-metadata, for snapshots only
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = HEADING)]
    pub snapshotter_extra_create_metadata: Option<bool>,

    /// Like --timeout, for snapshots only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub snapshotter_timeout: Option<Duration>,

    /// Like --worker-threads, for snapshots only
    #[arg(long, value_name = "NUMBER", help_heading = HEADING, value_parser = clap::value_parser!(u16).range(1..))]
    pub snapshotter_worker_threads: Option<u16>,

    /// Like --retry-interval-start, for snapshots only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub snapshotter_retry_interval_start: Option<Duration>,

    /// Like --retry-interval-max, for snapshots only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub snapshotter_retry_interval_max: Option<Duration>,
}

/// How snapshots are taken.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    pub(crate) workers: usize,
    pub(crate) timeout: Duration,
    pub(crate) retry: Backoff,
    /// Tell the driver the names of snapshot and content; `None`: as with volumes.
    pub(crate) extra_metadata: Option<bool>,
    pub(crate) naming: Naming,
    pub(crate) group_naming: Naming,
}

impl SnapshotArgs {
    pub(super) fn settings(&self, common: Common) -> Result<Snapshots, ArgsError> {
        Ok(Snapshots {
            workers: common.workers(self.snapshotter_worker_threads, 10),
            timeout: common.timeout(self.snapshotter_timeout, 60),
            retry: common.retry(
                "snapshotter-",
                Retry {
                    start: self.snapshotter_retry_interval_start,
                    max: self.snapshotter_retry_interval_max,
                },
            )?,
            extra_metadata: self.snapshotter_extra_create_metadata,
            naming: Naming::new(
                ["snapshot-name-prefix", "snapshot-name-uuid-length"],
                &self.snapshot_name_prefix,
                self.snapshot_name_uuid_length,
            )?,
            group_naming: Naming::new(
                [
                    "groupsnapshot-name-prefix",
                    "groupsnapshot-name-uuid-length",
                ],
                &self.groupsnapshot_name_prefix,
                self.groupsnapshot_name_uuid_length,
            )?,
        })
    }
}
