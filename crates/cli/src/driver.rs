//! Runs a CSI driver as a service: logs, metrics, health and shutdown around its socket.

use stowage_csi::metrics::ServerMetrics;
use stowage_csi::server::Shutdown;
use stowage_service::Service;
use stowage_service::admin::Endpoint;
use stowage_service::log::Format;

use crate::args::{HostpathArgs, WekaArgs};

/// Serves the embedded driver until SIGTERM.
pub async fn hostpath(args: HostpathArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    let metrics = service.metrics().with_registry(ServerMetrics::register);
    let shutdown = Shutdown {
        token: service.shutdown(),
        grace: args.service.grace_period,
    };
    let work = stowage_hostpath::run(args.driver, metrics, shutdown);
    Ok(service.run(work).await?)
}

/// Serves the driver for Weka until SIGTERM.
pub async fn weka(mut args: WekaArgs) -> anyhow::Result<()> {
    if args.enable_metrics && args.service.admin.http_endpoint == Endpoint::Off {
        args.service.admin.http_endpoint = Endpoint::On {
            host: String::new(),
            port: args.metrics_port,
        };
    }
    if args.use_json_logging {
        args.service.log.log_format = Format::Json;
    }
    let service = Service::start(&args.service)?;
    let name = args.driver.driver_name.clone();
    let metrics = service.metrics();
    let reports = stowage_weka::Reports {
        server: metrics.with_registry(ServerMetrics::register),
        weka: metrics.with_registry(|registry| stowage_weka::Metrics::register(registry, &name)),
        health: service.health().clone(),
    };
    let shutdown = Shutdown {
        token: service.shutdown(),
        grace: args.service.grace_period,
    };
    let work = stowage_weka::run(args.driver, reports, shutdown);
    Ok(service.run(work).await?)
}
