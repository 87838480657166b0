//! What is reported of all volumes.

use std::time::Duration;

use stowage_csi::flags::{at_least_one, seconds};

use super::FlagError;
use crate::args::figures::FigureArgs;

/// What is reported of all volumes.
// Each is a switch of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub(crate) struct FigureRules {
    pub(crate) is_on: bool,
    pub(crate) interval: Duration,
    pub(crate) clusters_at_a_time: usize,
    pub(crate) filesystems_at_a_time: usize,
    /// By one list for each filesystem.
    pub(crate) by_lists: bool,
    pub(crate) elects_a_leader: bool,
    pub(crate) backfill: bool,
    pub(crate) backfill_static: bool,
}

impl TryFrom<FigureArgs> for FigureRules {
    type Error = FlagError;

    fn try_from(args: FigureArgs) -> Result<Self, FlagError> {
        if args.set_quota_on_static_volumes && !args.backfill_missing_quotas {
            return Err(FlagError::StaticQuotas);
        }
        let interval = seconds("wekametricsfetchintervalseconds", args.interval_seconds)?;
        let validity = Duration::from_secs(args.validity_seconds);
        Ok(Self {
            is_on: args.advertise_volume_health,
            interval: interval.max(validity),
            clusters_at_a_time: at_least_one(
                "wekametricsfetchconcurrentrequests",
                args.clusters_at_a_time,
            )?,
            filesystems_at_a_time: at_least_one(
                "wekametricsquotaupdateconcurrentrequests",
                args.filesystems_at_a_time,
            )?,
            by_lists: args.fetch_quotas_in_batch_mode,
            elects_a_leader: args.figures_leader_election,
            backfill: args.backfill_missing_quotas,
            backfill_static: args.set_quota_on_static_volumes,
        })
    }
}
