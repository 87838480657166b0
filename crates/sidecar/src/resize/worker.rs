//! Does what was decided: one attempt for one claim at a time.
//!
//! The order: mark the claim with the size to reach, call the driver, write the volume's object, write the claim.
//! Whoever dies in between leaves a claim that asks for more than it has; the same call is made again.

mod report;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use stowage_api::quantity;
use stowage_csi::client::Connection;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::{Key, Queue, Verdict};
use stowage_kubernetes::secrets;

use super::failure::Failure;
use super::in_use::InUse;
use super::patch::{self, Record};
use super::progress::{Progress, Stage};
use super::step::{self, Grown, LastCall, Rules, Step, next_step};
use crate::cluster::Cluster;
use crate::cluster::claim::Claim;
use crate::cluster::volume::Volume;
use crate::objects::Objects;
use crate::provision::Scope;
use crate::role::Context;

/// How often a claim that changes under our hands is read again before it counts as a failure.
const ROUNDS: u32 = 3;

/// Works on claims.
pub(super) struct Worker {
    rules: Rules,
    cluster: Cluster,
    client: Client,
    objects: Objects,
    controller: ControllerClient<Connection>,
    events: Events,
    in_use: InUse,
    wait_for_pods: bool,
    /// Cleared when a server turns out to drop the fields.
    has_fields: AtomicBool,
    /// How the last call for a claim ended, where it did not succeed.
    last_calls: Mutex<HashMap<Key, LastCall>>,
    /// Pause after an answer that will stay the same.
    pub(super) slow: Duration,
    first: Duration,
    scope: Scope,
}

impl Worker {
    pub(super) fn new(context: &Context, queue: &Queue, scope: Scope) -> Self {
        let settings = &context.settings;
        let connection = context.driver.connection();
        let component = format!("external-resizer {}", context.driver.name());
        Self {
            rules: Rules::of(&context.driver, settings),
            cluster: context.cluster.clone(),
            client: context.client.clone(),
            objects: Objects::new(context.client.clone()),
            controller: ControllerClient::new(connection.with_timeout(settings.resize.timeout)),
            events: context.events.as_component(&component),
            in_use: InUse::new(context.client.clone(), queue.clone()),
            wait_for_pods: settings.resize.wait_for_pods,
            has_fields: AtomicBool::new(context.server.has_expansion_recovery()),
            last_calls: Mutex::default(),
            slow: settings.resize.retry.longest,
            first: settings.resize.retry.first,
            scope,
        }
    }

    /// Whether anything is to be done for a claim. Cheap: it is asked for every claim at every change.
    pub(super) fn wants(&self, claim: &Claim) -> bool {
        self.volume_of(claim).is_some_and(|volume| {
            let asks = quantity::size(&claim.requested).unwrap_or(0) > claim.capacity;
            asks || (volume.grew && claim.capacity >= volume.size)
        })
    }

    /// The volume of a claim that is bound to it, if it is ours to work on.
    fn volume_of(&self, claim: &Claim) -> Option<Arc<Volume>> {
        let volume = self.cluster.volume_of(claim);
        volume.filter(|volume| self.scope.has(volume))
    }

    /// A claim is gone, or has what it asks for.
    pub(super) fn forget(&self, claim: &Claim) {
        self.last_calls.lock().remove(claim.uid.as_str());
        self.in_use.leave(claim);
    }

    /// Brings one claim forward. Called twice: the second finds nothing to do.
    pub(super) async fn work(self: Arc<Self>, key: Key) -> Verdict {
        let Some(claim) = self.cluster.claims.store().get(&key) else {
            return Verdict::Done;
        };
        let Some(volume) = self.volume_of(&claim).filter(|_| self.wants(&claim)) else {
            self.forget(&claim);
            return Verdict::Done;
        };
        let mut round = 1;
        loop {
            match self.attempt(&key, &claim, &volume).await {
                Ok(verdict) => return verdict,
                Err((Failure::Object(ObjectError::Gone(_)), _)) => return Verdict::Done,
                Err((Failure::Object(ObjectError::Conflict(_)), _)) if round < ROUNDS => round += 1,
                Err((failure, live)) => {
                    return self
                        .report(key, &claim, &volume, live.as_ref(), &failure)
                        .await;
                }
            }
        }
    }

    /// One attempt. A failure comes with the claim as it was last read, if it was.
    async fn attempt(
        &self,
        key: &Key,
        claim: &Claim,
        volume: &Volume,
    ) -> Result<Verdict, (Failure, Option<Progress>)> {
        let mut live = self.read(claim).await.map_err(|failure| (failure, None))?;
        let last_call = self.last_calls.lock().get(key).copied();
        let step = next_step(self.rules.mode, &live, volume.size, volume.grew, last_call);
        let done = match step {
            Step::Rest => Ok(Verdict::Done),
            Step::Tidy => self.tidy(volume).await,
            Step::Refuse => Err(Failure::Unable(self.rules.driver.clone())),
            Step::HandOver(target) => {
                let grown = Grown {
                    size: target,
                    on_node: true,
                };
                self.settle(claim, volume, &live, target, grown).await
            }
            Step::Expand(target) => self.expand(key, claim, volume, &mut live, target).await,
        };
        done.map_err(|failure| (failure, Some(live)))
    }

    async fn read(&self, claim: &Claim) -> Result<Progress, Failure> {
        let found = self
            .objects
            .claim(&claim.namespace, &claim.name, &claim.uid);
        Ok(Progress::read(&found.await?)?)
    }

    async fn write(&self, claim: &Claim, patch: &Value) -> Result<Progress, Failure> {
        let written = self
            .objects
            .patch_claim_status(&claim.namespace, &claim.name, patch);
        Ok(Progress::read(&written.await?)?)
    }

    async fn tidy(&self, volume: &Volume) -> Result<Verdict, Failure> {
        let patch = patch::volume_tidied(volume);
        self.objects.patch_volume(&volume.name, &patch).await?;
        Ok(Verdict::Done)
    }

    async fn expand(
        &self,
        key: &Key,
        claim: &Claim,
        volume: &Volume,
        live: &mut Progress,
        target: i64,
    ) -> Result<Verdict, Failure> {
        if self.in_use.blocks(claim) {
            return Err(Failure::InUse("pods use it".to_owned()));
        }
        let mut request = step::request(&self.rules, volume, target)?;
        let secret = volume.csi.controller_expand_secret.as_deref();
        request.secrets = secrets::read(&self.client, secret).await?;
        if let Some(patch) = patch::begun(live, target, self.record()) {
            *live = self.write(claim, &patch).await?;
            if live.allocated.is_none() && self.has_fields.swap(false, Ordering::Relaxed) {
                tracing::info!(
                    "The API server drops the fields for expansions, which are off there: only conditions are written."
                );
            }
        }
        let text = format!("External resizer is resizing volume {}", volume.name);
        self.events.normal(claim.reference(), "Resizing", text);
        // Until there is an answer, any next call must be this one again.
        self.last_calls
            .lock()
            .insert(Arc::clone(key), LastCall::Open(target));
        let answer = self
            .controller
            .clone()
            .controller_expand_volume(request)
            .await;
        let answer = answer.map_err(Failure::of_driver)?;
        let grown = step::grown(answer.get_ref(), target)?;
        self.settle(claim, volume, live, target, grown).await
    }

    /// The volume is as large as it should be: the objects follow. The volume's comes first: the kubelet looks there
    /// when the claim says that it is its turn.
    async fn settle(
        &self,
        claim: &Claim,
        volume: &Volume,
        live: &Progress,
        target: i64,
        grown: Grown,
    ) -> Result<Verdict, Failure> {
        if let Some(patch) = patch::volume_grown(volume, live, grown) {
            self.objects.patch_volume(&volume.name, &patch).await?;
        }
        let written = self.write_outcome(claim, live, target, grown).await?;
        self.forget(claim);
        let about = claim.reference();
        tracing::info!(
            namespace = claim.namespace,
            claim = claim.name,
            volume = volume.name,
            size = grown.size,
            on_node = grown.on_node,
            "Volume expanded."
        );
        if grown.on_node {
            let text = "Require file system resize of volume on node";
            self.events.normal(about, "FileSystemResizeRequired", text);
        } else {
            let text = "Resize volume succeeded";
            self.events.normal(about, "VolumeResizeSuccessful", text);
        }
        // More was asked for meanwhile. Where the server keeps the stage, the node's step comes first.
        let again = written.requested > grown.size && written.stage == Stage::None;
        Ok(if again {
            Verdict::After(self.first, None)
        } else {
            Verdict::Done
        })
    }

    /// Somebody else may write the claim at the same time, the kubelet above all, which may even be done before we
    /// say that it is its turn.
    async fn write_outcome(
        &self,
        claim: &Claim,
        live: &Progress,
        target: i64,
        grown: Grown,
    ) -> Result<Progress, Failure> {
        let mut live = live.clone();
        let mut round = 1;
        loop {
            let patch = if grown.on_node {
                patch::handed_over(&live, target, self.record())
            } else {
                patch::finished(&live, grown.size)
            };
            match self.write(claim, &patch).await {
                Err(Failure::Object(ObjectError::Conflict(_))) if round < ROUNDS => round += 1,
                written => return written,
            }
            live = self.read(claim).await?;
            if live.capacity >= grown.size {
                return Ok(live);
            }
        }
    }

    fn record(&self) -> Record {
        if self.has_fields.load(Ordering::Relaxed) {
            Record::Fields
        } else {
            Record::ConditionsOnly
        }
    }
}
