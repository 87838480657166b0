//! Runs a CSI driver as a service: logs, metrics, health and shutdown around its socket.

use anyhow::Context as _;
use stowage_csi::metrics::ServerMetrics;
use stowage_csi::server::Shutdown;
use stowage_service::Service;
use stowage_service::admin::Endpoint;
use stowage_service::log::{Directives, DirectivesError, Format};

use crate::args::{HostpathArgs, VpsaArgs, WekaArgs};

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

/// Serves the driver for VPSAs until SIGTERM.
pub async fn vpsa(args: VpsaArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    let metrics = service.metrics().with_registry(ServerMetrics::register);
    let grace = args.service.grace_period;
    let work = stowage_vpsa::run(args.driver, service.process(), metrics, grace);
    Ok(Box::pin(service.run(work)).await?)
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
    if args.service.log.log_level.is_none() {
        args.service.log.log_level = args.service.log.verbosity.map(level).transpose()?;
    }
    let mut service = Service::start(&args.service)?;
    if let Some(port) = args
        .health_port
        .filter(|_| args.driver.driver.mode.has_controller())
    {
        let host = String::new();
        let listening = service.listen(&Endpoint::On { host, port });
        listening.context("cannot open the port of --health-port (HEALTH_PORT)")?;
    }
    let name = args.driver.driver.driver_name.clone();
    let metrics = service.metrics();
    let reports = stowage_weka::Reports {
        server: metrics.with_registry(ServerMetrics::register),
        weka: metrics.with_registry(|registry| stowage_weka::Metrics::register(registry, &name)),
        process: metrics.clone(),
        health: service.health().clone(),
    };
    let shutdown = Shutdown {
        token: service.shutdown(),
        grace: args.service.grace_period,
    };
    // Boxed: it is large.
    let work = Box::pin(stowage_weka::run(args.driver, reports, shutdown));
    Ok(service.run(work).await?)
}

/// WEKA's numbers for what is logged; they are not those of Kubernetes.
fn level(number: u8) -> Result<Directives, DirectivesError> {
    let text = match number {
        0..=3 => "error",
        4 => "info",
        5 => "info,stowage=debug",
        6.. => "info,stowage=trace",
    };
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_weka_is_a_level() {
        for number in 0..=u8::MAX {
            level(number).unwrap();
        }
    }
}
