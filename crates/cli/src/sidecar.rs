//! Runs the sidecar of a CSI driver as a service: logs, metrics, health and shutdown around its roles.

use stowage_service::Service;

use stowage_sidecar::controller::Process;

use crate::args::{SidecarControllerArgs, SidecarNodeArgs};

/// Provisions and attaches volumes until SIGTERM.
pub async fn controller(args: SidecarControllerArgs) -> anyhow::Result<()> {
    let termination = args.controller.termination.clone();
    let ended = serve_controller(args).await;
    if let Err(error) = &ended {
        termination.leave(&format!("{error:#}"));
    }
    ended
}

async fn serve_controller(args: SidecarControllerArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    let work = stowage_sidecar::controller::run(args.controller, process(&service));
    Ok(service.run(work).await?)
}

/// What a service provides to the work in it.
pub fn process(service: &Service) -> Process {
    Process {
        health: service.health().clone(),
        metrics: service.metrics().clone(),
        tasks: service.tasks().clone(),
        shutdown: service.shutdown(),
    }
}

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
    let work = stowage_sidecar::node::run(args.node, process(&service));
    Ok(service.run(work).await?)
}
