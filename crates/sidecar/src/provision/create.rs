//! Makes the volume of a claim.
//!
//! The order: decide everything, write it into the journal, call the driver, write the volume's object, drop the
//! journal's entry. Whoever dies in between leaves an entry that says how to go on.

mod failure;
mod hold;
mod save;
mod undo;

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use stowage_csi::client::Connection;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_kubernetes::queue::{Key, Verdict};
use stowage_kubernetes::{answer, secrets};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::limits::Limits;
use super::metrics::ProvisionMetrics;
use super::plan::{Plan, Planner, Refusal, SecretContent, Step};
use super::scope::Scope;
use super::topology::Accessibility;
use super::{object, protection, selected_node};
use crate::cluster::claim::{Claim, claim_reference};
use crate::intent::{Intent, Source};
use crate::journal::JournalError;
use crate::role::Context;

/// How long a claim waits for the journal before it says so.
const PATIENCE_WITH_JOURNAL: Duration = Duration::from_secs(5);

/// The worker on claims.
pub(crate) struct Provisioner {
    context: Context,
    planner: Planner,
    scope: Scope,
    /// Claims whose volumes have objects that are not in the cache yet: they are not made again.
    written: Mutex<HashSet<String>>,
    /// Claims that a node may help which comes or changes.
    waiting_for_nodes: Mutex<HashSet<String>>,
    /// Claims whose intents wait for a person.
    held: Mutex<HashSet<String>>,
    /// Goes into each volume, as upstream's does.
    identity: String,
    metrics: ProvisionMetrics,
    limits: Limits,
    /// The process is to end: nothing that has not begun begins.
    stop: CancellationToken,
}

impl Provisioner {
    pub(crate) fn new(
        context: Context,
        scope: &Scope,
        identity: String,
        metrics: ProvisionMetrics,
        limits: Limits,
        stop: CancellationToken,
    ) -> Self {
        let planner = Planner {
            context: context.clone(),
            accessibility: Accessibility::of(&context, scope),
            deferred: Arc::default(),
        };
        Self {
            context,
            planner,
            scope: scope.clone(),
            written: Mutex::default(),
            waiting_for_nodes: Mutex::default(),
            held: Mutex::default(),
            identity,
            metrics,
            limits,
            stop,
        }
    }

    /// Whether anything is to be done for a claim, now or later.
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

    /// A claim is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.seen(uid);
        self.waiting_for_nodes.lock().remove(uid);
        self.planner.deferred.lock().remove(uid);
    }

    /// A node came or changed: these claims are to be looked at again.
    pub(crate) fn take_waiting_for_nodes(&self) -> HashSet<String> {
        std::mem::take(&mut self.waiting_for_nodes.lock())
    }

    /// Works on one claim. Called twice: the same call to the driver, the same object, no second volume.
    pub(crate) async fn work(self: Arc<Self>, uid: &Key) -> Verdict {
        if let Some(intent) = self.context.journal.get(uid) {
            self.limits.pass_on();
            return self.resume(&intent).await;
        }
        let Some(inside) = self.limits.enter(uid) else {
            return Verdict::Done;
        };
        let claim = self.context.cluster.claims.store().get(uid);
        let waits = |claim: &Arc<Claim>| self.wants(claim) && !self.written.lock().contains(&**uid);
        let Some(claim) = claim.filter(waits) else {
            return Verdict::Done;
        };
        let prepared = self.prepare(&claim).await;
        drop(inside);
        match prepared {
            Ok(Some(plan)) => self.begin(plan).await,
            Ok(None) => Verdict::Done,
            Err(refusal) => self.refuse(&claim, refusal).await,
        }
    }

    /// Does what comes before the call: plans the volume, protects what it copies, makes the intent durable. `None`:
    /// there is nothing to do yet, or any more.
    async fn prepare(&self, claim: &Claim) -> Result<Option<Box<Plan>>, Refusal> {
        let context = &self.context;
        let plan = match self.planner.plan(claim).await? {
            Step::Rest => return Ok(None),
            _ if context.cluster.is_uninstalling() => return Err(Refusal::Uninstalling),
            Step::TakeNode(node) => {
                let taken = selected_node::take(&context.client, claim, &node).await;
                taken.map_err(|error| Refusal::Unreadable(Box::new(error)))?;
                return Ok(None);
            }
            Step::Make(plan) => plan,
        };
        if !self.limits.may_begin(&plan.intent) {
            self.complain(
                claim.reference(),
                "waits for volumes of the same class that the driver does not finish",
            );
            return Ok(None);
        }
        if let (Some(original), Some(uid)) = (claim.copies(), &plan.original) {
            let kept = protection::keep(context, original, uid).await;
            kept.map_err(|error| Refusal::Unprotected(Box::new(error)))?;
        }
        let recorded = self.make_durable(&plan.intent);
        match self.stop.run_until_cancelled(recorded).await {
            Some(recorded) => recorded.map(|()| Some(plan)).map_err(Refusal::from),
            // A journal that is full, or a server that is away, must not hold up the end of the process.
            None => {
                context.journal.forget(&claim.uid);
                Ok(None)
            }
        }
    }

    /// Makes an intent durable, and says so on the claim if that takes long.
    async fn make_durable(&self, intent: &Intent) -> Result<(), JournalError> {
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

    /// Carries out what was just written down. Until its turn comes nothing is known to the driver, and the entry can
    /// be dropped again.
    async fn begin(&self, plan: Box<Plan>) -> Verdict {
        let Plan {
            intent, secrets, ..
        } = *plan;
        let call = self.stop.run_until_cancelled(self.limits.call()).await;
        if call.is_none() || !self.is_wanted(&intent) {
            self.context.journal.forget(&intent.claim.uid);
            return Verdict::Done;
        }
        self.carry_out(&intent, secrets).await
    }

    /// Goes on with what was begun, perhaps by another process.
    async fn resume(&self, intent: &Intent) -> Verdict {
        let volumes = self.context.cluster.volumes.store();
        if let Some(known) = volumes.get(&intent.volume)
            && known.claim.as_ref() == Some(&intent.claim)
        {
            self.settle(intent, true);
            return Verdict::Done;
        }
        if !self.is_wanted(intent)
            && let Err(distrust) = self.trusted(intent)
        {
            return self.hold(intent, distrust);
        }
        // At the end the entry is left to the next process.
        let Some(_call) = self.stop.run_until_cancelled(self.limits.call()).await else {
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
