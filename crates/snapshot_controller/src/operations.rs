//! How long snapshots take, as users see it: from the moment a request was noticed until its status says so. Names,
//! labels and buckets are upstream's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use stowage_service::Metrics;

use crate::request::{Kind, Request, Source};

const BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];
/// Of a request whose driver is not known.
const UNKNOWN: &str = "unknown";

/// What is under way, and what was observed. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Operations {
    took: Family<Labels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    begun: Arc<Mutex<UnderWay>>,
}

/// By the request's uid.
type UnderWay = HashMap<(String, Operation), Begun>;

#[derive(Debug)]
struct Begun {
    since: Instant,
    /// As soon as it is known: at the end of a request its content may be gone already.
    driver: Option<String>,
}

/// In upstream's order.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    driver_name: String,
    operation_name: &'static str,
    snapshot_type: &'static str,
    operation_status: &'static str,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Operation {
    Create,
    CreateAndReady,
    Delete,
}

impl Operation {
    fn name(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Create, Kind::Single) => "CreateSnapshot",
            (Self::CreateAndReady, Kind::Single) => "CreateSnapshotAndReady",
            (Self::Delete, Kind::Single) => "DeleteSnapshot",
            (Self::Create, Kind::Group) => "CreateGroupSnapshot",
            (Self::CreateAndReady, Kind::Group) => "CreateGroupSnapshotAndReady",
            (Self::Delete, Kind::Group) => "DeleteGroupSnapshot",
        }
    }
}

impl Operations {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        let own = Self {
            took: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            in_flight: Gauge::default(),
            begun: Arc::default(),
        };
        metrics.register(
            "snapshot_controller_operation_total_seconds",
            "Total number of seconds spent by the controller on an operation",
            own.took.clone(),
        );
        metrics.register(
            "snapshot_controller_operations_in_flight",
            "Total number of operations in flight",
            own.in_flight.clone(),
        );
        own
    }

    /// Takes note of a request as it is now. Called twice: what has begun has begun.
    pub(crate) fn saw(&self, request: &Request, driver: Option<&str>) {
        if request.deleting {
            self.begin(request, Operation::Delete, driver);
            return;
        }
        let made_here = !matches!(request.source, Source::Content(_));
        match (&request.status.created, made_here) {
            (None, true) => self.begin(request, Operation::Create, driver),
            (None, false) => {}
            (Some(_), _) => self.end(request, Operation::Create, driver, "success"),
        }
        if request.is_ready() {
            self.end(request, Operation::CreateAndReady, driver, "success");
        } else {
            self.begin(request, Operation::CreateAndReady, driver);
        }
    }

    /// The request is gone: what had not ended by then never will.
    pub(crate) fn saw_end(&self, request: &Request, driver: Option<&str>) {
        self.end(request, Operation::Delete, driver, "success");
        self.end(request, Operation::Create, driver, "cancel");
        self.end(request, Operation::CreateAndReady, driver, "cancel");
    }

    fn begin(&self, request: &Request, operation: Operation, driver: Option<&str>) {
        let mut begun = self.begun.lock();
        let key = (request.uid.clone(), operation);
        let entry = begun.entry(key).or_insert_with(|| Begun {
            since: Instant::now(),
            driver: None,
        });
        if let Some(driver) = driver {
            entry.driver = Some(driver.to_owned());
        }
        self.count(&begun);
    }

    fn end(
        &self,
        request: &Request,
        operation: Operation,
        driver: Option<&str>,
        operation_status: &'static str,
    ) {
        let mut begun = self.begun.lock();
        let Some(ended) = begun.remove(&(request.uid.clone(), operation)) else {
            return;
        };
        self.count(&begun);
        let labels = Labels {
            driver_name: driver
                .or(ended.driver.as_deref())
                .unwrap_or(UNKNOWN)
                .to_owned(),
            operation_name: operation.name(request.kind),
            snapshot_type: match request.source {
                Source::Content(_) => "pre-provisioned",
                Source::Claim(_) | Source::Claims(_) | Source::Unclear => "dynamic",
            },
            operation_status,
        };
        let took = self.took.get_or_create(&labels);
        took.observe(ended.since.elapsed().as_secs_f64());
    }

    fn count(&self, begun: &UnderWay) {
        let count = i64::try_from(begun.len()).unwrap_or(i64::MAX);
        self.in_flight.set(count);
    }
}
