//! `stowage sidecar controller`: gets to know driver and server, waits for its lease, runs the roles.
//!
//! One lease, upstream's provisioner's, decides which replica works. Each role also holds the lease of the Go sidecar
//! it replaces, so that the two never work side by side: a role whose lease is held elsewhere waits while the others
//! run.

mod patience;

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use kube::Config;
use stowage_csi::endpoint::Endpoint;
use stowage_csi::metrics::ClientMetrics;
use stowage_kubernetes::discovery::ServerError;
use stowage_kubernetes::events::Events;
use stowage_service::client::{self, ClientError};
use stowage_service::lease::LeaseError;
use stowage_service::{Elections, KubeArgs, LeaseArgs, Process, memory};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::args::{ArgsError, RoleArgs, Settings};
use crate::cluster::{Cluster, Kinds, Watcher};
use crate::driver::{
    Change, Driver, DriverError, DriverName, DriverOptions, DriverWatch, Interest,
};
use crate::journal::JournalError;
use crate::liveness::{Liveness, LivenessArgs, LivenessError, some_time};
use crate::role::{Context, ROLES, Role, sanitised};
use crate::server::Server;
use crate::termination::TerminationArgs;
use crate::{arrival, provision};

/// How long the last write of the journal may take.
const LAST_WRITE: Duration = Duration::from_secs(5);

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

    /// Roles.
    #[command(flatten)]
    pub roles: RoleArgs,

    /// Leader election.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// The API server.
    #[command(flatten)]
    pub kube: KubeArgs,

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
        "the driver came back with other capabilities: this process ends so that its roles begin anew"
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
    /// The socket serves no controller.
    #[error(
        "the driver `{0}` can neither create nor attach volumes: it needs no controller sidecar"
    )]
    NothingToDo(DriverName),
}

/// Runs until shutdown.
pub async fn run(args: ControllerArgs, process: Process) -> Result<(), ControllerError> {
    let settings = args.roles.settings(args.timeout, false)?;
    let metrics = process.metrics.with_registry(ClientMetrics::register);
    let liveness = Liveness::start(&args.liveness, &args.csi_address, metrics.clone())?;
    let options = DriverOptions {
        endpoint: args.csi_address.clone(),
        timeout: settings.provision.timeout,
        metrics,
        interest: Interest::Capabilities,
        check: process.health.check("driver"),
    };
    let config = args.kube.config().await?;
    let Some((driver, watch)) = Driver::connect(options, &process.shutdown).await? else {
        return Ok(());
    };
    if let Some(liveness) = &liveness {
        liveness.name_driver(driver.name());
    }
    driver.expect(args.driver_name.as_ref(), &args.csi_address)?;
    let controller = Controller::new(settings, config, &args.lease, process, driver)?;
    controller
        .serve(watch, args.roles.resolve_intents_and_exit)
        .await
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
        Ok(Self {
            settings: Arc::new(settings),
            elections: Elections::new(config.clone(), lease, &process.metrics)?,
            config,
            process,
            driver,
        })
    }

    /// Waits for the lease and works, until shutdown or until the driver is another one.
    pub(crate) async fn serve(
        self,
        watch: DriverWatch,
        resolve_only: bool,
    ) -> Result<(), ControllerError> {
        let work = async {
            let Some(server) = self.discover().await? else {
                return Ok(());
            };
            let lease = sanitised(self.driver.name().as_str());
            let shutdown = &self.process.shutdown;
            // On the heap: all roles are in it.
            let work = |lost| Box::pin(self.work(server, lost, resolve_only));
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

    /// Does the work of a leader. Everything ends with this future; after a request to stop, what is under way is
    /// finished first.
    async fn work(
        &self,
        server: Server,
        lost: CancellationToken,
        resolve_only: bool,
    ) -> Result<(), ControllerError> {
        let roles = self.roles()?;
        let client = client::connect(self.config.clone())?;
        let Some(journal) = self.open_journal(&client).await? else {
            return Ok(());
        };
        let stop = self.process.shutdown.child_token();
        // The journal and the events outlive the roles, which write to them to the last.
        let the_end = CancellationToken::new();
        let _guards = (stop.clone().drop_guard(), the_end.clone().drop_guard());
        let component = format!("external-provisioner {}", self.driver.name());
        let events = Events::new(client.clone(), &component, &self.process.metrics);
        let (writer, recorder) = (journal.clone(), events.clone());
        let (until, and_until) = (the_end.clone(), the_end.clone());
        self.process
            .tasks
            .spawn("journal", async move { writer.run(until).await });
        self.process
            .tasks
            .spawn("events", async move { recorder.run(and_until).await });

        let context = Context {
            driver: self.driver.clone(),
            cluster: Cluster::default(),
            watcher: Watcher {
                client: client.clone(),
                driver: self.driver.name().as_str().into(),
                tasks: self.process.tasks.clone(),
                health: self.process.health.clone(),
            },
            client: client.clone(),
            server: Arc::new(server),
            events,
            journal: journal.clone(),
            settings: Arc::clone(&self.settings),
            metrics: self.process.metrics.clone(),
        };
        let taken = journal.lost();
        let work = self.run_roles(&context, &roles, &stop, resolve_only);
        tokio::select! {
            ended = work => ended?,
            // Somebody else may be at work already: whatever is under way is dropped at once.
            () = lost.cancelled() => return Ok(()),
            () = taken.cancelled() => {
                return Err(journal.loss().unwrap_or(JournalError::Stopped).into());
            }
        }
        match timeout(LAST_WRITE, journal.flush()).await {
            Ok(written) => Ok(written?),
            Err(_) => {
                tracing::warn!(
                    "The server does not take the intent journal: the next process looks at it again."
                );
                Ok(())
            }
        }
    }

    async fn run_roles(
        &self,
        context: &Context,
        roles: &[(&'static Role, Kinds)],
        stop: &CancellationToken,
        resolve_only: bool,
    ) -> Result<(), ControllerError> {
        let kinds = roles
            .iter()
            .fold(Kinds::default(), |all, (_, needs)| all.and(*needs));
        let kinds = kinds.on(&context.server);
        context.cluster.start(&context.watcher, kinds, stop);
        if !is_known(context, Kinds::default(), stop).await {
            return Ok(());
        }
        tracing::info!(
            claims = context.cluster.claims.store().len(),
            volumes = context.cluster.volumes.store().len(),
            intents = context.journal.all().len(),
            "The cluster is known."
        );
        // The lists took more than what is kept of them.
        memory::give_back();
        if resolve_only {
            provision::resolve(context.clone(), stop.clone()).await;
            match context.journal.all().len() {
                0 => tracing::info!("No volume is left half made."),
                left => tracing::warn!(left, "Asked to stop: volumes are left half made."),
            }
            return Ok(());
        }
        let all = roles
            .iter()
            .map(|(role, needs)| self.run_role(role, *needs, context.clone(), stop));
        // A role that lost its lease ends the process: it may have been in the middle of something.
        try_join_all(all).await.map(|_| ())
    }

    /// Runs a role while it holds the lease of the Go sidecar that it replaces. It waits for the kinds that it reads
    /// itself: a rule that is missing for one role stops no other, nor does a kind that is not installed yet.
    async fn run_role(
        &self,
        role: &Role,
        needs: Kinds,
        context: Context,
        stop: &CancellationToken,
    ) -> Result<(), ControllerError> {
        let lacking = needs.snapshots && !context.server.snapshots;
        if lacking && !arrival::wait(&context, arrival::SINGLE, stop).await {
            return Ok(());
        }
        if !is_known(&context, needs.on(&context.server), stop).await {
            return Ok(());
        }
        let driver = self.driver.name().as_str();
        let lease = (role.lease)(driver);
        let start = |token| {
            tracing::info!(role = role.name, "The role begins.");
            (role.run)(context, token)
        };
        if self.settings.own_node.is_some() || lease == sanitised(driver) {
            start(stop.clone()).await;
            return Ok(());
        }
        let work = |lost: CancellationToken| async move {
            let stop = stop.child_token();
            let work = start(stop);
            lost.run_until_cancelled(work).await;
        };
        self.elections.lead(&lease, stop, work).await?;
        Ok(())
    }

    /// The roles that this driver has work for, and what they need to see.
    fn roles(&self) -> Result<Vec<(&'static Role, Kinds)>, ControllerError> {
        let needs = |role: &Role| (role.needs)(self.driver.capabilities(), &self.settings);
        let there = |role: &'static Role| Some((role, needs(role)?));
        let roles: Vec<_> = ROLES.iter().filter_map(there).collect();
        if roles.is_empty() {
            return Err(ControllerError::NothingToDo(self.driver.name().clone()));
        }
        Ok(roles)
    }
}

/// Waits until these kinds are known. False: asked to stop.
async fn is_known(context: &Context, kinds: Kinds, stop: &CancellationToken) -> bool {
    let synced = context.cluster.synced(kinds);
    stop.run_until_cancelled(synced).await.is_some()
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
