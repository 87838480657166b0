//! Makes the volume of a claim.
//!
//! The order: decide everything, write it into the journal, call the driver, write the volume's object, drop the
//! journal's entry. Whoever dies in between leaves an entry that says how to go on.

mod failure;
mod gate;
mod save;
mod undo;

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use stowage_csi::client::Connection;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_kubernetes::answer;
use stowage_kubernetes::queue::{Key, Verdict};
use stowage_kubernetes::secrets;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) use self::gate::Gate;
use super::metrics::ProvisionMetrics;
use super::plan::{Places, Planner, Refusal, volume_name};
use super::{object, selected_node};
use crate::cluster::claim::{Claim, claim_reference};
use crate::cluster::class::Class;
use crate::intent::{Intent, Source};
use crate::journal::JournalError;
use crate::role::Context;

/// How long a claim waits for the journal before it says so.
const PATIENCE_WITH_JOURNAL: Duration = Duration::from_secs(5);

/// The worker on claims.
pub(crate) struct Provisioner {
    context: Context,
    planner: Planner,
    /// Claims whose volumes have objects that are not in the cache yet: they are not made again.
    written: Mutex<HashSet<String>>,
    /// Goes into each volume, as upstream's does.
    identity: String,
    metrics: ProvisionMetrics,
    /// Whoever plans a volume and waits for the journal is inside. None: nothing new is taken up.
    gate: Option<Gate>,
    /// Held while a volume is planned: that may take requests of its own.
    planners: Semaphore,
    /// Held from the call to the driver to the volume's object.
    callers: Semaphore,
    /// The process is to end: nothing that has not begun begins.
    stop: CancellationToken,
}

/// The content of a secret.
type SecretContent = BTreeMap<String, String>;

impl Provisioner {
    pub(crate) fn new(
        context: Context,
        places: Places,
        identity: String,
        metrics: ProvisionMetrics,
        gate: Option<Gate>,
        stop: CancellationToken,
    ) -> Self {
        let workers = context.settings.provision.workers;
        let planner = Planner {
            context: context.clone(),
            places,
        };
        Self {
            context,
            planner,
            written: Mutex::default(),
            identity,
            metrics,
            gate,
            planners: Semaphore::new(workers),
            callers: Semaphore::new(workers),
            stop,
        }
    }

    /// Whether anything is to be done for a claim, now or by and by.
    pub(crate) fn wants(&self, claim: &Claim) -> bool {
        if !claim.ours || claim.volume.is_some() || claim.deleting {
            return false;
        }
        match &self.context.settings.own_node {
            None => true,
            Some(own) => match &claim.selected_node {
                Some(node) => *node == own.name,
                None => own.immediate.is_some(),
            },
        }
    }

    /// The object of a claim's volume came, changed or went: the cache tells from here on.
    pub(crate) fn seen(&self, uid: &str) {
        self.written.lock().remove(uid);
    }

    /// Works on one claim. Called twice: the same call to the driver, the same object, no second volume.
    pub(crate) async fn work(self: Arc<Self>, uid: &Key) -> Verdict {
        if let Some(intent) = self.context.journal.get(uid) {
            // Perhaps it was this claim's turn to enter.
            self.gate.iter().for_each(Gate::next);
            return self.resume(&intent).await;
        }
        // Whoever waits for the journal must not keep all workers: those who free it need some.
        let Some(beginning) = self.gate.as_ref().and_then(|gate| gate.enter(uid)) else {
            return Verdict::Done;
        };
        let claim = self.context.cluster.claims.store().get(uid);
        let waits = |claim: &Arc<Claim>| self.wants(claim) && !self.written.lock().contains(&**uid);
        let Some(claim) = claim.filter(waits) else {
            return Verdict::Done;
        };
        let begun = self.begin(&claim).await;
        drop(beginning);
        match begun {
            Ok(Some((intent, secrets))) => self.start(&intent, secrets).await,
            Ok(None) => Verdict::Done,
            Err(refusal) => self.refuse(&claim, refusal).await,
        }
    }

    /// Plans the volume and makes the plan durable. `None`: there is nothing to do yet, or any more.
    async fn begin(&self, claim: &Claim) -> Result<Option<(Intent, SecretContent)>, Refusal> {
        let planning = self.planners.acquire().await;
        let Some((intent, secrets)) = self.plan(claim).await? else {
            return Ok(None);
        };
        drop(planning);
        match self.stop.run_until_cancelled(self.record(&intent)).await {
            Some(recorded) => recorded
                .map(|()| Some((intent, secrets)))
                .map_err(Refusal::from),
            // A journal that is full, or a server that is away, must not hold up the end of the process.
            None => {
                self.context.journal.forget(&claim.uid);
                Ok(None)
            }
        }
    }

    async fn plan(&self, claim: &Claim) -> Result<Option<(Intent, SecretContent)>, Refusal> {
        let name = volume_name(&self.context.settings, &claim.uid);
        if let Some(known) = self.context.cluster.volumes.store().get(&name) {
            let own = known.claim.as_ref().is_some_and(|of| of.uid == claim.uid);
            return if own {
                Ok(None)
            } else {
                Err(Refusal::NameTaken(name))
            };
        }
        let class = self.class_of(claim)?;
        if class.waits_for_consumer && claim.selected_node.is_none() {
            return Ok(None);
        }
        let client = &self.context.client;
        if let (Some(own), None) = (&self.context.settings.own_node, &claim.selected_node) {
            let taken = selected_node::take(client, claim, &own.name).await;
            taken.map_err(|error| Refusal::Unreadable(Box::new(error)))?;
            return Ok(None);
        }
        let intent = self.planner.plan(claim, &class).await?;
        // Before it is written down: an intent that was never sent must not need a secret that nobody ever made.
        let secrets = secrets::read(client, intent.secrets.provisioner.as_ref()).await?;
        Ok(Some((intent, secrets)))
    }

    /// Makes an intent durable, and says so on the claim if that takes long.
    async fn record(&self, intent: &Intent) -> Result<(), JournalError> {
        let mut recorded = pin!(self.context.journal.record(intent.clone()));
        if let Ok(recorded) = timeout(PATIENCE_WITH_JOURNAL, &mut recorded).await {
            return recorded;
        }
        self.complain(
            reference(intent),
            "the intent journal takes no entry: it is full of volumes that the driver does not finish, or its Lease \
             cannot be written (are `create` and `update` on `leases` allowed?); the log of the sidecar says which",
        );
        recorded.await
    }

    fn class_of(&self, claim: &Claim) -> Result<Arc<Class>, Refusal> {
        let name = claim.class.as_deref().ok_or(Refusal::ClassNotNamed)?;
        let class = self.context.cluster.classes.store().get(name);
        class.ok_or_else(|| Refusal::NoClass(name.to_owned()))
    }

    /// Goes on with what was begun, perhaps by another process.
    async fn resume(&self, intent: &Intent) -> Verdict {
        let volumes = self.context.cluster.volumes.store();
        if let Some(known) = volumes.get(&intent.volume)
            && known.claim.as_ref() == Some(&intent.claim)
        {
            self.context.journal.forget(&intent.claim.uid);
            return Verdict::Done;
        }
        // At the end the entry is left to the next process.
        let Some(_calling) = self.stop.run_until_cancelled(self.callers.acquire()).await else {
            return Verdict::Done;
        };
        let secret = intent.secrets.provisioner.as_ref();
        let secrets = if self.is_wanted(intent) {
            secrets::read(&self.context.client, secret).await
        } else {
            // It may have gone with its namespace, and will never come back.
            secrets::read_if_there(&self.context.client, secret).await
        };
        match secrets {
            Ok(secrets) => self.carry_out(intent, secrets).await,
            Err(error) => self.failed(intent, &answer::chain(&error)),
        }
    }

    /// Carries out what was just written down. Until its turn comes nothing is known to the driver, and the entry can
    /// be dropped again.
    async fn start(&self, intent: &Intent, secrets: SecretContent) -> Verdict {
        let calling = self.stop.run_until_cancelled(self.callers.acquire()).await;
        if calling.is_none() || !self.is_wanted(intent) {
            self.context.journal.forget(&intent.claim.uid);
            return Verdict::Done;
        }
        self.carry_out(intent, secrets).await
    }

    /// Makes the call and all that follows from its answer.
    async fn carry_out(&self, intent: &Intent, secrets: SecretContent) -> Verdict {
        let started = Instant::now();
        let request = object::create_request(intent, secrets);
        let answer = self.driver().create_volume(request).await;
        match answer.map(|answer| object::check_answer(intent, answer.into_inner().volume)) {
            Ok(Ok(volume)) if self.is_wanted(intent) => self.save(intent, volume, started).await,
            Ok(Ok(volume)) => self.undo(intent, &volume.volume_id).await,
            Ok(Err((error, id))) => self.reject(intent, &error, id).await,
            Err(status) => self.not_made(intent, &status).await,
        }
    }

    /// Whether the claim still waits for this volume. A uid that is gone never comes back.
    fn is_wanted(&self, intent: &Intent) -> bool {
        match self.context.cluster.claims.store().get(&intent.claim.uid) {
            None => false,
            Some(claim) => claim
                .volume
                .as_ref()
                .is_none_or(|name| *name == intent.volume),
        }
    }

    fn driver(&self) -> ControllerClient<Connection> {
        let timeout = self.context.settings.provision.timeout;
        ControllerClient::new(self.context.driver.connection().with_timeout(timeout))
    }
}

fn reference(intent: &Intent) -> ObjectReference {
    let claim = &intent.claim;
    claim_reference(&claim.namespace, &claim.name, &claim.uid)
}

fn shown(intent: &Intent) -> String {
    format!("{}/{}", intent.claim.namespace, intent.claim.name)
}

/// The label of upstream's metrics.
fn source_label(source: Option<&Source>) -> &'static str {
    match source {
        None => "",
        Some(Source::Snapshot(_)) => "VolumeSnapshot",
        Some(Source::Volume(_)) => "PersistentVolumeClaim",
    }
}
