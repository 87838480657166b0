//! The flags of snapshots.

use std::time::Duration;

use stowage_service::duration;

use super::{ArgsError, Common, Naming};

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

    /// Like --timeout, for snapshots only
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HEADING)]
    pub snapshotter_timeout: Option<Duration>,

    /// Like --worker-threads, for snapshots only
    #[arg(long, value_name = "NUMBER", help_heading = HEADING, value_parser = clap::value_parser!(u16).range(1..))]
    pub snapshotter_worker_threads: Option<u16>,
}

/// How snapshots are taken.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    pub(crate) workers: usize,
    pub(crate) timeout: Duration,
    pub(crate) naming: Naming,
    pub(crate) group_naming: Naming,
}

impl SnapshotArgs {
    pub(super) fn settings(&self, common: Common) -> Result<Snapshots, ArgsError> {
        Ok(Snapshots {
            workers: common.workers(self.snapshotter_worker_threads, 10),
            timeout: common.timeout(self.snapshotter_timeout, 60),
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
