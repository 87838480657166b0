//! What is counted about calls, on both sides of the socket.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tonic::Code;

use crate::proto::METHODS;

/// The buckets of upstream's sidecars, so that dashboards keep working.
const BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];

/// Our own part of a call is small: what matters is whether it stays below a few milliseconds.
const OVERHEAD_BUCKETS: [f64; 9] = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.1, 1.0];

/// Calls that a driver answers. Clones count into the same metrics.
#[derive(Clone, Debug)]
pub struct ServerMetrics {
    pub(crate) seconds: Family<ServerLabels, Histogram, fn() -> Histogram>,
    pub(crate) overhead: Family<MethodLabels, Histogram, fn() -> Histogram>,
    pub(crate) in_flight: Family<MethodLabels, Gauge>,
    pub(crate) panics: Family<MethodLabels, Counter>,
}

/// Calls that the sidecar makes, under the names that upstream's sidecars use.
#[derive(Clone, Debug)]
pub struct ClientMetrics {
    pub(crate) seconds: Family<ClientLabels, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct MethodLabels {
    pub(crate) method_name: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ServerLabels {
    pub(crate) method_name: &'static str,
    pub(crate) grpc_status_code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ClientLabels {
    pub(crate) driver_name: Arc<str>,
    pub(crate) method_name: &'static str,
    pub(crate) grpc_status_code: &'static str,
}

impl ServerMetrics {
    /// Metrics of one process; a registry takes them once.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "stowage_csi_server_call_seconds",
            "Time until a CSI call was answered, by method and gRPC status code",
            metrics.seconds.clone(),
        );
        registry.register(
            "stowage_csi_server_overhead_seconds",
            "Time of a CSI call that was not spent waiting for tools, mounts, devices and files, by method",
            metrics.overhead.clone(),
        );
        registry.register(
            "stowage_csi_server_calls_in_flight",
            "CSI calls being answered now, by method",
            metrics.in_flight.clone(),
        );
        registry.register(
            "stowage_csi_server_panics",
            "CSI calls that ended in a panic, by method",
            metrics.panics.clone(),
        );
        metrics
    }
}

impl Default for ServerMetrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        Self {
            seconds: Family::new_with_constructor(histogram),
            overhead: Family::new_with_constructor(|| Histogram::new(OVERHEAD_BUCKETS)),
            in_flight: Family::default(),
            panics: Family::default(),
        }
    }
}

impl ClientMetrics {
    /// Metrics of one process; a registry takes them once.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "csi_sidecar_operations_seconds",
            "Time until a CSI call returned, by driver, method and gRPC status code",
            metrics.seconds.clone(),
        );
        metrics
    }
}

impl Default for ClientMetrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        Self {
            seconds: Family::new_with_constructor(histogram),
        }
    }
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

/// The path of a call as a label; paths we do not know share one, so that a caller cannot grow the metrics.
pub(crate) fn method_label(path: &str) -> &'static str {
    METHODS
        .iter()
        .find(|known| **known == path)
        .copied()
        .unwrap_or("unknown")
}

/// A status code as Go programs spell it, because upstream's dashboards do.
pub fn code_label(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}
