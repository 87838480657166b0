//! Flags of the Go sidecars that have no meaning here.

use stowage_service::go_flags::GoFlags;

/// Every flag of the current sidecars that does nothing here, and old ones that manifests still carry. What each was for, and why it is
/// not needed: the sidecar's guide, which a test compares with this list.
#[derive(Debug)]
pub enum Upstream {}

impl GoFlags for Upstream {
    const VALUES: &[&str] = &[
        "capacity-threads",
        "cloning-protection-threads",
        "connection-timeout",
        "kube-api-burst",
        "kube-api-capacity-burst",
        "kube-api-capacity-qps",
        "kube-api-qps",
        "leader-election-type",
        "max-grpc-log-length",
        "resync",
        "resync-period",
        "snapshot-orphan-sweep-interval",
    ];
    const SWITCHES: &[&str] = &["automaxprocs", "enable-pprof"];
}
