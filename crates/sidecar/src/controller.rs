//! `stowage sidecar controller`: gets to know driver and server, waits for its lease, runs the roles.
//!
//! One lease, upstream's provisioner's, decides which replica works. Each role also holds the lease of the Go sidecar
//! it replaces, so that the two never work side by side: a role whose lease is held elsewhere waits while the others
//! run.

mod leader;
mod prerequisites;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use kube::Config;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_kubernetes::discovery::ServerError;
use stowage_service::client::ClientError;
use stowage_service::lease::LeaseError;
use stowage_service::{Elections, LeaseArgs, Process};
use tokio_util::sync::CancellationToken;

use crate::args::{ArgsError, Errand, NODE_DEPLOYMENT, RoleArgs, ServerArgs, Settings};
use crate::driver::{
    Change, Driver, DriverError, DriverName, DriverOptions, DriverWatch, Interest,
};
use crate::journal::JournalError;
use crate::liveness::{LivenessArgs, LivenessError, Probes, some_time};
use crate::role::sanitised;
use crate::termination::TerminationArgs;

/// Flags of `stowage sidecar controller`.
#[derive(clap::Args, Clone, Debug)]
pub struct ControllerArgs {
    /// Socket of the driver
    #[arg(long, value_name = "SOCKET", default_value = "/run/csi/socket")]
    pub csi_address: Endpoint,

    /// Work only for a driver of this name [default: any]
    #[arg(long, value_name = "NAME")]
    pub driver_name: Option<DriverName>,

    /// How long a call to the driver may take [default: 10s; 15s to attach, 1m for snapshots]
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    pub timeout: Option<Duration>,

    /// Work for the volumes of this node only, beside a driver that runs completely on every node
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
        help_heading = NODE_DEPLOYMENT)]
    pub node_deployment: bool,

    /// Roles.
    #[command(flatten)]
    pub roles: RoleArgs,

    /// Leader election.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// The API server.
    #[command(flatten)]
    pub server: ServerArgs,

    /// Liveness.
    #[command(flatten)]
    pub liveness: LivenessArgs,

    /// Last words.
    #[command(flatten)]
    pub termination: TerminationArgs,
}

/// Why the controller cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Flags that make no sense.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// No liveness endpoint.
    #[error(transparent)]
    Liveness(#[from] LivenessError),
    /// The driver is not what it should be.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The roles depend on what the driver can do.
    #[error(
        "the driver came back with other capabilities: this process ends so that it starts with the roles for them"
    )]
    Different,
    /// No client for the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The API server cannot be worked with.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A lease was lost.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// No journal, or no longer ours.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// What was asked for could not be written.
    #[error("the list of intents cannot be printed")]
    Print(#[from] io::Error),
    /// Not all intents could be resolved.
    #[error(
        "{0} volumes are left half made, because their intents are old or of another cluster: see --list-intents, and \
         start this again with --force-intent for those that may be deleted"
    )]
    Held(usize),
    /// The socket serves no controller.
    #[error(
        "the driver `{0}` can neither create nor attach volumes: it does not need a controller sidecar"
    )]
    NothingToDo(DriverName),
}

/// Runs until shutdown.
pub async fn run(args: ControllerArgs, process: Process) -> Result<(), ControllerError> {
    let settings = args.roles.settings(args.timeout, args.node_deployment)?;
    let metrics = process.metrics.with_registry(ClientMetrics::register);
    let probes = Probes::start(&args.liveness, &args.csi_address, &metrics, &process.health)?;
    let options = DriverOptions {
        endpoint: args.csi_address.clone(),
        timeout: settings.provision.timeout,
        metrics,
        interest: Interest::Capabilities,
        check: process.health.check("driver"),
    };
    let config = args.server.config().await?;
    let Some((driver, watch)) = Driver::connect(options, &process.shutdown).await? else {
        return Ok(());
    };
    probes.name_driver(driver.name());
    driver.expect(args.driver_name.as_ref(), &args.csi_address)?;
    let controller = Controller::new(settings, config, &args.lease, process, driver)?;
    controller.serve(watch, args.roles.intents.errand()).await
}

/// The roles of one driver.
pub(crate) struct Controller {
    settings: Arc<Settings>,
    elections: Elections,
    config: Config,
    process: Process,
    driver: Driver,
}

impl Controller {
    pub(crate) fn new(
        settings: Settings,
        config: Config,
        lease: &LeaseArgs,
        process: Process,
        driver: Driver,
    ) -> Result<Self, ControllerError> {
        let driver = if settings.provision.topology {
            driver
        } else {
            driver.without_topology()
        };
        Ok(Self {
            settings: Arc::new(settings),
            elections: Elections::new(config.clone(), lease, &process.metrics)?,
            config,
            process,
            driver,
        })
    }

    /// Waits for the lease and works, until shutdown or until the driver is another one; or does an errand.
    pub(crate) async fn serve(
        self,
        watch: DriverWatch,
        errand: Option<Errand>,
    ) -> Result<(), ControllerError> {
        let work = async {
            let Some(server) = self.discover().await? else {
                return Ok(());
            };
            if errand == Some(Errand::List) {
                return self.list_intents().await;
            }
            let resolve = errand == Some(Errand::Resolve);
            let lease = sanitised(self.driver.name().as_str());
            let shutdown = &self.process.shutdown;
            // On the heap: all roles are in it.
            let work = |lost| Box::pin(self.work(server, lost, resolve));
            if self.settings.own_node.is_some() {
                // Each works for its own node: there is nothing to be decided.
                return work(CancellationToken::new()).await;
            }
            self.elections
                .lead(&lease, shutdown, work)
                .await?
                .unwrap_or(Ok(()))
        };
        tokio::select! {
            ended = work => ended,
            error = another(watch) => Err(error),
        }
    }
}

/// Waits until the driver is another one.
async fn another(mut watch: DriverWatch) -> ControllerError {
    loop {
        match watch.next().await {
            // Calls wait for it and are repeated; there is nothing to do here.
            Ok(Change::Lost | Change::Back) => {}
            Ok(Change::Different(_)) => return ControllerError::Different,
            Err(error) => return error.into(),
        }
    }
}
