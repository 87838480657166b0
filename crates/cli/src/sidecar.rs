//! Runs the sidecar of a CSI driver as a service: logs, metrics, health and shutdown around its roles.

use stowage_service::Service;

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

async fn serve_controller(args: SidecarControllerArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
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

async fn serve_node(args: SidecarNodeArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    let work = Box::pin(stowage_sidecar::node::run(args.node, service.process()));
    Ok(service.run(work).await?)
}
