//! The work of the process that leads: watches, journal and events, and the roles under their leases.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use kube::Client;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::watch::Watcher;
use stowage_service::{client, memory};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Controller, ControllerError, prerequisites};
use crate::cluster::{Cluster, DriverWatcher, Kinds, Versions};
use crate::journal::{Journal, JournalError};
use crate::role::{Context, ROLES, Role, sanitised};
use crate::server::Server;
use crate::{arrival, provision};

/// How long the last write of the journal may take.
const LAST_WRITE: Duration = Duration::from_secs(5);

impl Controller {
    /// Does the work of a leader. Everything ends with this future; after a request to stop, what is under way is
    /// finished first.
    pub(super) async fn work(
        &self,
        server: Server,
        lost: CancellationToken,
        resolve: bool,
    ) -> Result<(), ControllerError> {
        let roles = self.roles()?;
        let client = client::connect_for_work(self.config.clone())?;
        let journal = self.journal(&client);
        if resolve && self.open(&client, &journal).await?.is_none() {
            return Ok(());
        }
        let stop = self.process.shutdown.child_token();
        let component = format!("external-provisioner {}", self.driver.name());
        // The journal and the events outlive the roles, which write to them to the last.
        let (events, _events_end) = Events::start(client.clone(), &component, &self.process);
        let _journal_ends = self.keep_written(client.clone(), &journal);
        let _roles_end = stop.clone().drop_guard();

        let context = self.context(client, server, events, journal.clone());
        let taken = journal.lost();
        let work = self.run_roles(&context, &roles, &stop, resolve);
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
                    "The intent journal cannot be written at the end; the next process looks at its entries again."
                );
                Ok(())
            }
        }
    }

    /// Opens the journal, if it is not, and writes it until the guard is dropped. Only those who make volumes wait for
    /// it.
    fn keep_written(&self, client: Client, journal: &Journal) -> DropGuard {
        let (writer, stop) = (journal.clone(), CancellationToken::new());
        let (stopped, check) = (stop.clone(), self.process.health.check("intent journal"));
        let task = async move {
            if prerequisites::opened(&client, &writer, &check, &stopped).await {
                writer.run(stopped).await;
            }
        };
        self.process.tasks.spawn("journal", task);
        stop.drop_guard()
    }

    fn context(&self, client: Client, server: Server, events: Events, journal: Journal) -> Context {
        let process = &self.process;
        Context {
            driver: self.driver.clone(),
            cluster: Cluster::default(),
            watcher: DriverWatcher {
                watcher: Watcher {
                    client: client.clone(),
                    tasks: process.tasks.clone(),
                    health: process.health.clone(),
                },
                driver: self.driver.name().as_str().into(),
            },
            client,
            server: Arc::new(server),
            events,
            journal,
            settings: Arc::clone(&self.settings),
            metrics: process.metrics.clone(),
        }
    }

    async fn run_roles(
        &self,
        context: &Context,
        roles: &[(&'static Role, Kinds)],
        stop: &CancellationToken,
        resolve: bool,
    ) -> Result<(), ControllerError> {
        let kinds = roles
            .iter()
            .fold(Kinds::default(), |all, (_, needs)| all.and(*needs));
        let kinds = kinds.on(&context.server);
        let versions = Versions::of(&context.server);
        context
            .cluster
            .start(&context.watcher, kinds, versions, stop);
        if !is_known(context, Kinds::default(), stop).await {
            return Ok(());
        }
        tracing::info!(
            claims = context.cluster.claims.store().len(),
            volumes = context.cluster.volumes.store().len(),
            "The cluster is known."
        );
        // The lists took more than what is kept of them.
        memory::give_back();
        if resolve {
            let held = provision::resolve(context.clone(), stop.clone()).await;
            match context.journal.all().len() {
                0 => tracing::info!("No volume is left half made."),
                left if left == held => return Err(ControllerError::Held(held)),
                left => tracing::warn!(left, "Asked to stop while volumes are half made."),
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
        if lacking
            && arrival::wait(&context, arrival::SINGLE, stop)
                .await
                .is_none()
        {
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
