//! Runs the cluster-wide half of snapshots as a service.

use stowage_service::Service;

use crate::args::SnapshotControllerCommand;

/// Binds snapshots to contents until SIGTERM.
pub async fn run(args: SnapshotControllerCommand) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    let work = stowage_snapshot_controller::run(args.controller, service.process());
    Ok(Box::pin(service.run(work)).await?)
}
