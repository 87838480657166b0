//! Makes the volume of a claim.
//!
//! The order: decide everything, write it into the journal, call the driver, write the volume's object, drop the
//! journal's entry. Whoever dies in between leaves an entry that says how to go on.

mod undo;

use std::{
    collections::{BTreeMap, HashSet},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeSpec};
use kube::{Api, api::PostParams};
use stowage_csi::{
    client::Connection,
    proto::csi::{Volume as MadeVolume, controller_client::ControllerClient},
};
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::{
    metrics::ProvisionMetrics,
    object,
    plan::{Places, Planner, Refusal, volume_name},
    selected_node,
    source::SourceError,
    topology::TopologyError,
};
use crate::{
    cluster::{
        claim::{Claim, claim_reference},
        class::Class,
    },
    driver_call,
    intent::{Intent, Source},
    journal::JournalError,
    queue::Verdict,
    role::Context,
    secrets,
};

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
    /// Take up nothing new.
    only_intents: bool,
    /// Plan volumes and wait for the journal.
    beginners: Semaphore,
    /// Wait for the driver.
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
        only_intents: bool,
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
            only_intents,
            beginners: Semaphore::new(workers),
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
        self.written().remove(uid);
    }

    /// Works on one claim. Called twice: the same call to the driver, the same object, no second volume.
    pub(crate) async fn work(self: Arc<Self>, uid: &str) -> Verdict {
        if let Some(intent) = self.context.journal.get(uid) {
            return self.resume(&intent).await;
        }
        let Some(claim) = self.context.cluster.claims.store().get(uid) else {
            return Verdict::Done;
        };
        if self.only_intents || !self.wants(&claim) || self.written().contains(uid) {
            return Verdict::Done;
        }
        // Whoever waits for the journal must not keep all workers: those who free it need some.
        let Ok(beginning) = self.beginners.try_acquire() else {
            return Verdict::After(self.context.settings.retry_first, None);
        };
        let begun = self.begin(&claim).await;
        drop(beginning);
        match begun {
            Ok(Some((intent, secrets))) => self.carry_out(&intent, secrets).await,
            Ok(None) => Verdict::Done,
            Err(refusal) => self.refuse(&claim, refusal).await,
        }
    }

    /// Plans the volume and makes the plan durable. `None`: there is nothing to do yet, or any more.
    async fn begin(&self, claim: &Claim) -> Result<Option<(Intent, SecretContent)>, Refusal> {
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
        match self.stop.run_until_cancelled(self.record(&intent)).await {
            Some(recorded) => recorded
                .map(|()| Some((intent, secrets)))
                .map_err(Refusal::from),
            // A journal that is full, or a server that is away, must not hold up the end of the process.
            None => Ok(None),
        }
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

    /// Nothing was sent to the driver.
    async fn refuse(&self, claim: &Claim, refusal: Refusal) -> Verdict {
        let message = driver_call::chain(&refusal);
        match &refusal {
            Refusal::Source(SourceError::Populator(_)) => {
                let about = claim.reference();
                self.context.events.normal(about, "Provisioning", message);
                Verdict::Done
            }
            Refusal::Topology(TopologyError::NodeGone(_)) => {
                self.refused(claim, &message);
                self.choose_another_node(claim, message).await
            }
            _ => {
                self.refused(claim, &message);
                Verdict::Retry(message)
            }
        }
    }

    fn refused(&self, claim: &Claim, message: &str) {
        let class = claim.class.as_deref().unwrap_or_default();
        self.metrics.made(class, source_label(None), None);
        self.complain(claim.reference(), message);
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
        let secret = intent.secrets.provisioner.as_ref();
        let secrets = if self.is_wanted(intent) {
            secrets::read(&self.context.client, secret).await
        } else {
            // It may have gone with its namespace, and will never come back.
            secrets::read_if_there(&self.context.client, secret).await
        };
        match secrets {
            Ok(secrets) => self.carry_out(intent, secrets).await,
            Err(error) => self.failed(intent, &driver_call::chain(&error)),
        }
    }

    async fn carry_out(&self, intent: &Intent, secrets: SecretContent) -> Verdict {
        let started = Instant::now();
        let request = object::create_request(intent, secrets);
        let calling = self.callers.acquire().await;
        let answer = self.driver().create_volume(request).await;
        drop(calling);
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

    async fn save(&self, intent: &Intent, volume: MadeVolume, started: Instant) -> Verdict {
        let driver = self.context.driver.name().as_str();
        let handle = volume.volume_id.clone();
        let object = object::persistent_volume(intent, volume, driver, &self.identity);
        let api = Api::<PersistentVolume>::all(self.context.client.clone());
        // Before the write: the watch may be faster than the answer.
        self.written().insert(intent.claim.uid.clone());
        let created = match api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.is_same(&api, intent, &handle).await
            }
            Err(error) => Err(driver_call::chain(&error)),
            Ok(_) => Ok(()),
        };
        if let Err(error) = created {
            self.written().remove(&intent.claim.uid);
            let message = format!("volume `{}` cannot be written: {error}", intent.volume);
            return self.failed(intent, &message);
        }
        self.context.journal.forget(&intent.claim.uid);
        let took = started.elapsed();
        self.metrics.made(
            &intent.class.name,
            source_label(intent.source.as_ref()),
            Some(took),
        );
        tracing::info!(claim = %shown(intent), volume = intent.volume, handle, milliseconds = took.as_millis(), "Volume provisioned.");
        self.context.events.normal(
            reference(intent),
            "ProvisioningSucceeded",
            format!("Successfully provisioned volume {}", intent.volume),
        );
        Verdict::Done
    }

    /// An object of this name exists: it is success only if it is this very volume of this very claim.
    async fn is_same(
        &self,
        api: &Api<PersistentVolume>,
        intent: &Intent,
        handle: &str,
    ) -> Result<(), String> {
        let existing = match api.get(&intent.volume).await {
            Ok(existing) => existing.spec.unwrap_or_default(),
            Err(error) => return Err(driver_call::chain(&error)),
        };
        let same_handle = self.is_volume(&existing, handle);
        let claim = existing.claim_ref.and_then(|claim| claim.uid);
        if same_handle && claim.as_deref() == Some(intent.claim.uid.as_str()) {
            return Ok(());
        }
        Err(format!(
            "an object of this name exists and is not the volume `{handle}` of this claim: delete or rename it"
        ))
    }

    fn is_volume(&self, object: &PersistentVolumeSpec, handle: &str) -> bool {
        let driver = self.context.driver.name().as_str();
        let csi = object.csi.as_ref();
        csi.is_some_and(|csi| csi.volume_handle == handle && csi.driver == driver)
    }

    /// The driver said no, or nothing.
    async fn not_made(&self, intent: &Intent, status: &Status) -> Verdict {
        let message = driver_call::status(status);
        if driver_call::may_be_running(status.code()) {
            // The same call again, whatever becomes of the claim: only the driver knows what there is.
            return self.failed(intent, &message);
        }
        self.context.journal.forget(&intent.claim.uid);
        let claim = self.context.cluster.claims.store().get(&intent.claim.uid);
        let Some(claim) = claim else {
            tracing::warn!(claim = %shown(intent), volume = intent.volume, reason = message, "The driver has no volume for a claim that is gone.");
            return Verdict::Done;
        };
        let verdict = self.failed(intent, &message);
        match status.code() {
            Code::ResourceExhausted
                if intent.topology.is_some() && claim.selected_node.is_some() =>
            {
                self.choose_another_node(&claim, message).await
            }
            // Asking again will not help until somebody changes claim or class.
            Code::InvalidArgument => {
                Verdict::After(self.context.settings.retry_longest, Some(message))
            }
            _ => verdict,
        }
    }

    /// Says what is wrong, on the claim and in the metrics. The intent stays.
    fn failed(&self, intent: &Intent, message: &str) -> Verdict {
        let source = source_label(intent.source.as_ref());
        self.metrics.made(&intent.class.name, source, None);
        self.complain(reference(intent), message);
        Verdict::Retry(message.to_owned())
    }

    fn complain(&self, about: ObjectReference, message: &str) {
        let claim = about.name.as_deref().unwrap_or_default();
        let namespace = about.namespace.as_deref().unwrap_or_default();
        tracing::warn!(
            namespace,
            claim,
            reason = message,
            "A claim cannot be provisioned; trying again."
        );
        let text = format!("failed to provision volume: {message}");
        self.context
            .events
            .warning(about, "ProvisioningFailed", text);
    }

    /// There is no room where the pod was to run, or no such place any more.
    async fn choose_another_node(&self, claim: &Claim, why: String) -> Verdict {
        if let Err(error) = selected_node::take_back(&self.context.client, claim).await {
            return Verdict::Retry(format!("{why}; {}", driver_call::chain(&error)));
        }
        // Where every node has a controller, another one shall have its chance: our own turn comes with the change.
        match &self.context.settings.own_node {
            Some(_) => Verdict::Done,
            None => Verdict::Retry(why),
        }
    }

    fn driver(&self) -> ControllerClient<Connection> {
        let timeout = self.context.settings.provision.timeout;
        ControllerClient::new(self.context.driver.connection().with_timeout(timeout))
    }

    fn written(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
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
