//! The metrics of a process, in the `OpenMetrics` text format.
//!
//! The registry starts with what every process has: the `process_*` metrics and `stowage_build_info`. Names that the
//! Go sidecars have are kept, so that existing dashboards and alerts go on working.

mod process;

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use prometheus_client::encoding::text;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

/// What `/metrics` says it is; a scraper reads the format from this and not from the body.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of this process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<RwLock<Registry>>,
}

impl Metrics {
    /// A registry with the process and build metrics.
    #[allow(
        clippy::new_without_default,
        reason = "a default that reads /proc would surprise"
    )]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::Process));
        let build = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("revision", revision()),
        ];
        registry.register(
            "stowage_build",
            "The version of this binary",
            Info::new(build.to_vec()),
        );
        Self {
            registry: Arc::new(RwLock::new(registry)),
        }
    }

    /// Adds a metric; keep a clone of it to change its value.
    ///
    /// The format appends `_total` to the name of a counter and `_info` to that of an info metric: leave them out.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.with_registry(|registry| registry.register(name, help, metric));
    }

    /// Hands the registry to code that adds a family of metrics of its own.
    pub fn with_registry<T>(&self, add: impl FnOnce(&mut Registry) -> T) -> T {
        let mut registry = self.registry.write();
        add(&mut registry)
    }

    /// Everything, as text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let registry = self.registry.read();
        let mut text = String::new();
        text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// The commit, where the build knows it.
fn revision() -> &'static str {
    option_env!("STOWAGE_REVISION").unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn the_build_info_names_the_version() {
        let text = Metrics::new().encode().unwrap();
        let expected = concat!(
            "stowage_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\","
        );
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_registered_counter_appears_with_its_value() {
        let metrics = Metrics::new();
        let counter: Counter = Counter::default();
        metrics
            .clone()
            .register("parcels", "Parcels carried", counter.clone());
        counter.inc_by(3);
        let text = metrics.encode().unwrap();
        assert!(text.contains("\nparcels_total 3\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
