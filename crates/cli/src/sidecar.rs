//! Runs the sidecar of a CSI driver as a service: logs, metrics, health and shutdown around its roles.

use stowage_csi::metrics::ClientMetrics;
use stowage_service::Service;

use crate::args::SidecarNodeArgs;

/// Registers a driver on its node until SIGTERM.
pub async fn node(args: SidecarNodeArgs) -> anyhow::Result<()> {
    if args.node.is_exec_probe() {
        return Ok(());
    }
    let termination = args.node.termination.clone();
    let ended = serve_node(args).await;
    if let Err(error) = &ended {
        termination.leave(&format!("{error:#}"));
    }
    ended
}

async fn serve_node(args: SidecarNodeArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    let metrics = service.metrics().with_registry(ClientMetrics::register);
    let health = service.health().clone();
    let work = stowage_sidecar::node::run(args.node, &health, metrics, service.shutdown());
    Ok(service.run(work).await?)
}
