//! Runs the sidecar of a CSI driver as a service: logs, metrics, health and shutdown around its roles.

use stowage_service::admin::Endpoint;
use stowage_service::{Service, ServiceArgs, StartError};
use stowage_sidecar::liveness::LivenessArgs;

use crate::args::{SidecarControllerArgs, SidecarNodeArgs};

/// Provisions and attaches volumes until SIGTERM.
pub async fn controller(args: SidecarControllerArgs) -> anyhow::Result<()> {
    let termination = args.controller.termination.clone();
    let ended = Box::pin(serve_controller(args)).await;
    if let Err(error) = &ended {
        termination.leave(error.as_ref());
    }
    ended
}

async fn serve_controller(mut args: SidecarControllerArgs) -> anyhow::Result<()> {
    let service = start(args.service, &mut args.controller.liveness)?;
    let work = Box::pin(stowage_sidecar::controller::run(
        args.controller,
        service.process(),
    ));
    Ok(service.run(work).await?)
}

/// Registers a driver on its node until SIGTERM.
pub async fn node(args: SidecarNodeArgs) -> anyhow::Result<()> {
    if args.node.is_exec_probe() {
        return Ok(());
    }
    let termination = args.node.termination.clone();
    let ended = Box::pin(serve_node(args)).await;
    if let Err(error) = &ended {
        termination.leave(error.as_ref());
    }
    ended
}

async fn serve_node(mut args: SidecarNodeArgs) -> anyhow::Result<()> {
    let service = start(args.service, &mut args.node.liveness)?;
    let work = Box::pin(stowage_sidecar::node::run(args.node, service.process()));
    Ok(service.run(work).await?)
}

/// Starts the service with its ports. A port that is taken ends the process only where the driver's probe is asked for on it: on
/// `--health-port`, or without that on `--http-endpoint`. A driver whose metrics nobody can read still serves its volumes.
fn start(mut args: ServiceArgs, liveness: &mut LivenessArgs) -> Result<Service, StartError> {
    let wanted = std::mem::replace(&mut args.admin.http_endpoint, Endpoint::Off);
    let metrics = std::mem::replace(&mut args.admin.metrics_address, Endpoint::Off);
    if matches!(wanted, Endpoint::On { port, .. } if Some(port) == liveness.port()) {
        // One port for both: it answers for the driver as well.
        liveness.health_port = None;
    }
    let mut service = Service::start(&args)?;
    let opened = service.listen(&wanted);
    if liveness.port().is_none() {
        opened?;
    } else if let Err(error) = opened {
        tracing::error!(%error, "The process goes on without this port.");
    }
    if metrics != wanted
        && let Err(error) = service.listen(&metrics)
    {
        tracing::error!(%error, "The process goes on without the port of --metrics-address.");
    }
    Ok(service)
}
