//! The flags of `stowage snapshot-controller`.

use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use stowage_service::go_flags::{GoFlags, WithoutEffect};
use stowage_service::{KubeArgs, LeaseArgs, duration};

/// Flags of `stowage snapshot-controller`. Names and defaults are upstream's.
#[derive(clap::Args, Clone, Debug)]
pub struct SnapshotControllerArgs {
    /// How many snapshots to work on at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub worker_threads: u16,

    /// Pause after the first failure of an object; it doubles
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1s")]
    pub retry_interval_start: Duration,

    /// Longest pause between two attempts
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "5m")]
    pub retry_interval_max: Duration,

    /// How long a driver's sidecar may take to begin with a snapshot before its user gets an event
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1m")]
    pub begin_patience: Duration,

    /// Say on each content which node's sidecar is to deal with it, for drivers with a sidecar on every node
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub enable_distributed_snapshotting: bool,

    /// Leader election.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// The API server.
    #[command(flatten)]
    pub kube: KubeArgs,

    /// Flags that upstream's manifests carry and that have no meaning here.
    #[command(flatten)]
    pub upstream: WithoutEffect<Upstream>,
}

/// Flags of upstream's snapshot controller that do nothing here.
#[derive(Debug)]
pub enum Upstream {}

impl GoFlags for Upstream {
    const VALUES: &[&str] = &[
        "feature-gates",
        "kube-api-burst",
        "kube-api-qps",
        "resync-period",
        "retry-crd-interval-max",
    ];
    const SWITCHES: &[&str] = &["automaxprocs", "prevent-volume-mode-conversion"];
}
