//! Flags about what is reported of all volumes.

use stowage_csi::flags::switch;

/// What is reported of all volumes.
// Each is a switch of its own.
#[allow(clippy::struct_excessive_bools, clippy::duplicated_attributes)]
#[derive(clap::Args, Clone, Debug)]
#[command(
    mut_arg("advertise_volume_health", switch),
    mut_arg("fetch_quotas_in_batch_mode", switch),
    mut_arg("figures_leader_election", switch),
    mut_arg("backfill_missing_quotas", switch),
    mut_arg("set_quota_on_static_volumes", switch)
)]
pub struct FigureArgs {
    /// Report condition and figures of all volumes of the driver, published or not; needs the right to read
    /// PersistentVolumes and the secrets that they name
    #[arg(
        long = "advertisevolumehealthsupport",
        default_value = "true",
        default_missing_value = "true"
    )]
    pub advertise_volume_health: bool,

    /// How often to read all volumes from their clusters
    #[arg(
        long = "wekametricsfetchintervalseconds",
        value_name = "SECONDS",
        default_value_t = 60
    )]
    pub interval_seconds: u64,

    /// How long what was read counts: if longer than that, it is how often to read them
    #[arg(
        long = "wekametricsquotacachevalidityseconds",
        alias = "wekametricsquotamapvalidityseconds",
        value_name = "SECONDS",
        default_value_t = 60
    )]
    pub validity_seconds: u64,

    /// How many clusters to read at a time
    #[arg(
        long = "wekametricsfetchconcurrentrequests",
        value_name = "NUMBER",
        default_value_t = 4
    )]
    pub clusters_at_a_time: usize,

    /// How many filesystems of a cluster to read at a time
    #[arg(
        long = "wekametricsquotaupdateconcurrentrequests",
        value_name = "NUMBER",
        default_value_t = 5
    )]
    pub filesystems_at_a_time: usize,

    /// Read the quotas of a filesystem by one list; otherwise by one call for each volume
    #[arg(
        long = "fetchquotasinbatchmode",
        default_value = "true",
        default_missing_value = "true"
    )]
    pub fetch_quotas_in_batch_mode: bool,

    /// Let one of several controllers read the volumes
    #[arg(long = "enablemetricsserverleaderelection", default_value = "false")]
    pub figures_leader_election: bool,

    /// Give volumes the quotas that they lack, as large as their PersistentVolumes say
    #[arg(long = "backfillmissingquotas", default_value = "false")]
    pub backfill_missing_quotas: bool,

    /// Give such quotas to static volumes, too
    #[arg(long = "setquotaonstaticvolumes", default_value = "false")]
    pub set_quota_on_static_volumes: bool,
}
