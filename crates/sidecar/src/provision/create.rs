//! Makes the volume of a claim.
//!
//! The order: decide everything, write it into the journal, call the driver, write the volume's object, drop the
//! journal's entry. Whoever dies in between leaves an entry that says how to go on.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{Api, ResourceExt as _, api::PostParams};
use stowage_csi::{
    client::Connection,
    proto::csi::{DeleteVolumeRequest, Volume as MadeVolume, controller_client::ControllerClient},
};
use tonic::{Code, Status};

use super::{
    metrics::ProvisionMetrics,
    object::{self, AnswerError},
    plan::{Places, Planner, Refusal, volume_name},
    source::SourceError,
    topology::TopologyError,
};
use crate::{
    cluster::{
        claim::{Claim, SELECTED_NODE, claim_reference},
        class::Class,
    },
    driver_call,
    intent::{Intent, Source},
    queue::Verdict,
    role::Context,
    secrets,
};

/// The worker on claims.
pub(crate) struct Provisioner {
    context: Context,
    planner: Planner,
    /// Volumes whose objects are written and not seen yet in the cache: they are not made again.
    written: Mutex<HashSet<String>>,
    /// Goes into each volume, as upstream's does.
    identity: String,
    metrics: ProvisionMetrics,
    /// Take up nothing new.
    only_intents: bool,
}

impl Provisioner {
    pub(crate) fn new(
        context: Context,
        places: Places,
        identity: String,
        metrics: ProvisionMetrics,
        only_intents: bool,
    ) -> Self {
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

    /// A volume's object was seen, or is gone: the claim may be looked at again.
    pub(crate) fn seen(&self, uid: &str) {
        self.written().remove(uid);
    }

    /// Works on one claim. Called twice: the same call to the driver, the same object, no second volume.
    pub(crate) async fn work(self: Arc<Self>, uid: &str) -> Verdict {
        if let Some(intent) = self.context.journal.get(uid) {
            return self.carry_out(&intent).await;
        }
        let Some(claim) = self.context.cluster.claims.store().get(uid) else {
            return Verdict::Done;
        };
        if self.only_intents || !self.wants(&claim) || self.written().contains(uid) {
            return Verdict::Done;
        }
        let name = volume_name(&self.context.settings, uid);
        if self.context.cluster.volumes.store().get(&name).is_some() {
            return Verdict::Done;
        }
        match self.begin(&claim).await {
            Ok(Some(intent)) => self.carry_out(&intent).await,
            Ok(None) => Verdict::Done,
            Err(refusal) => self.refuse(&claim, refusal).await,
        }
    }

    /// Plans the volume and makes the plan durable. `None`: it is not time yet.
    async fn begin(&self, claim: &Claim) -> Result<Option<Intent>, Refusal> {
        let class = self.class_of(claim)?;
        if class.waits_for_consumer && claim.selected_node.is_none() {
            return Ok(None);
        }
        if self.context.settings.own_node.is_some() && claim.selected_node.is_none() {
            // The write comes back as a change of the claim.
            self.take_for_own_node(claim).await?;
            return Ok(None);
        }
        let intent = self.planner.plan(claim, &class).await?;
        self.context.journal.record(intent.clone()).await?;
        Ok(Some(intent))
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
                return Verdict::Done;
            }
            Refusal::Topology(TopologyError::NodeGone(_)) => {
                self.complain(claim.reference(), &message);
                return self.choose_another_node(claim, message).await;
            }
            _ => self.complain(claim.reference(), &message),
        }
        let class = claim.class.as_deref().unwrap_or_default();
        self.metrics.made(class, source_label(None), None);
        Verdict::Retry(message)
    }

    async fn carry_out(&self, intent: &Intent) -> Verdict {
        let volumes = self.context.cluster.volumes.store();
        if let Some(known) = volumes.get(&intent.volume)
            && known.claim.as_ref() == Some(&intent.claim)
        {
            self.context.journal.forget(&intent.claim.uid);
            return Verdict::Done;
        }
        let secrets = secrets::read(&self.context.client, intent.secrets.provisioner.as_ref());
        let secrets = match secrets.await {
            Ok(secrets) => secrets,
            Err(error) => return self.failed(intent, &driver_call::chain(&error)),
        };
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

    async fn save(&self, intent: &Intent, volume: MadeVolume, started: Instant) -> Verdict {
        let driver = self.context.driver.name().as_str();
        let handle = volume.volume_id.clone();
        let object = object::persistent_volume(intent, volume, driver, &self.identity);
        let api = Api::<PersistentVolume>::all(self.context.client.clone());
        let created = match api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.is_same(&api, intent, &handle).await
            }
            Err(error) => Err(driver_call::chain(&error)),
            Ok(_) => Ok(()),
        };
        if let Err(error) = created {
            let message = format!("volume `{}` cannot be written: {error}", intent.volume);
            return self.failed(intent, &message);
        }
        self.written().insert(intent.claim.uid.clone());
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
        let same_handle = existing.csi.is_some_and(|csi| csi.volume_handle == handle);
        let claim = existing.claim_ref.and_then(|claim| claim.uid);
        if same_handle && claim.as_deref() == Some(intent.claim.uid.as_str()) {
            return Ok(());
        }
        Err(format!(
            "an object of this name exists and is not the volume `{handle}` of this claim: delete or rename it"
        ))
    }

    /// The driver did not make what it was asked for: what it made goes, and it is asked again later.
    async fn reject(&self, intent: &Intent, error: &AnswerError, id: Option<String>) -> Verdict {
        let message = error.to_string();
        if let Some(id) = id {
            if let Err(verdict) = self.delete(intent, &id).await {
                return verdict;
            }
            self.context.journal.forget(&intent.claim.uid);
        }
        self.failed(intent, &message)
    }

    /// Nobody waits for the volume any more.
    async fn undo(&self, intent: &Intent, id: &str) -> Verdict {
        if let Err(verdict) = self.delete(intent, id).await {
            return verdict;
        }
        self.context.journal.forget(&intent.claim.uid);
        tracing::info!(claim = %shown(intent), handle = id, "Volume deleted again: its claim is gone.");
        Verdict::Done
    }

    async fn delete(&self, intent: &Intent, id: &str) -> Result<(), Verdict> {
        let secrets = secrets::read(&self.context.client, intent.secrets.provisioner.as_ref());
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            secrets: secrets.await.unwrap_or_default(),
        };
        let Err(status) = self.driver().delete_volume(request).await else {
            return Ok(());
        };
        let message = format!(
            "volume `{id}` cannot be deleted again: {}",
            driver_call::status(&status)
        );
        let about = reference(intent);
        self.context
            .events
            .warning(about, "ProvisioningCleanupFailed", message.clone());
        Err(Verdict::Retry(message))
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

    fn complain(&self, about: k8s_openapi::api::core::v1::ObjectReference, message: &str) {
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

    /// Takes the scheduler's choice back: there is no room where it wanted the pod.
    async fn choose_another_node(&self, claim: &Claim, why: String) -> Verdict {
        let remove = |live: &mut PersistentVolumeClaim| {
            let selected = live.annotations().get(SELECTED_NODE);
            let same = selected.is_some() && selected == claim.selected_node.as_ref();
            same.then(|| live.annotations_mut().remove(SELECTED_NODE))
                .is_some()
        };
        match self.change_claim(claim, remove).await {
            Ok(()) => Verdict::After(self.context.settings.retry_first, Some(why)),
            Err(error) => Verdict::Retry(format!("{why}; {}", driver_call::chain(&error))),
        }
    }

    /// The first node to write its name gets the claim.
    async fn take_for_own_node(&self, claim: &Claim) -> Result<(), Refusal> {
        let Some(own) = &self.context.settings.own_node else {
            return Ok(());
        };
        let take = |live: &mut PersistentVolumeClaim| {
            let free = !live.annotations().contains_key(SELECTED_NODE);
            let name = own.name.clone();
            free.then(|| {
                live.annotations_mut()
                    .insert(SELECTED_NODE.to_owned(), name)
            })
            .is_some()
        };
        match self.change_claim(claim, take).await {
            // Somebody else was first.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            result => result.map_err(|error| Refusal::Unreadable(Box::new(error))),
        }
    }

    /// Reads, changes and updates a claim; upstream's role allows no patch. A claim that is gone is left alone.
    async fn change_claim(
        &self,
        claim: &Claim,
        change: impl Fn(&mut PersistentVolumeClaim) -> bool,
    ) -> kube::Result<()> {
        let client = self.context.client.clone();
        let api = Api::<PersistentVolumeClaim>::namespaced(client, &claim.namespace);
        let Some(mut live) = api.get_opt(&claim.name).await? else {
            return Ok(());
        };
        if live.uid().as_deref() == Some(&claim.uid) && change(&mut live) {
            api.replace(&claim.name, &PostParams::default(), &live)
                .await?;
        }
        Ok(())
    }

    fn driver(&self) -> ControllerClient<Connection> {
        let timeout = self.context.settings.provision.timeout;
        ControllerClient::new(self.context.driver.connection().with_timeout(timeout))
    }

    fn written(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a node waits before it takes a claim that any node may take: they do not all try at once.
pub(crate) fn jitter(uid: &str, (base, longest): (Duration, Duration)) -> Duration {
    let seed = std::collections::hash_map::RandomState::new();
    let random = std::hash::BuildHasher::hash_one(&seed, uid);
    let span = u64::try_from(base.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(random % span).min(longest)
}

fn reference(intent: &Intent) -> k8s_openapi::api::core::v1::ObjectReference {
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
