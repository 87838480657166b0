//! Does what was decided: one attempt for one claim at a time.
//!
//! The order: mark the claim with the class to reach, call the driver, write the volume's object, write the claim.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use stowage_csi::client::Connection;
use stowage_csi::metrics::code_label;
use stowage_csi::proto::csi::ControllerModifyVolumeRequest;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_kubernetes::events::Events;
use stowage_kubernetes::object_error::ObjectError;
use stowage_kubernetes::queue::{Key, Verdict};
use stowage_kubernetes::secrets::{self, SecretError};
use tonic::{Code, Status};

use super::patch;
use super::step::{Progress, Step, next_step};
use crate::attributes_class::{self, ClassError};
use crate::cluster::claim::Claim;
use crate::cluster::volume::Volume;
use crate::driver_call;
use crate::objects::Objects;
use crate::provision::Scope;
use crate::role::Context;

/// How often a claim that changes under our hands is read again before it counts as a failure.
const ROUNDS: u32 = 3;

/// Works on claims.
pub(super) struct Worker {
    context: Context,
    objects: Objects,
    controller: ControllerClient<Connection>,
    events: Events,
    scope: Scope,
    /// Claims whose last call was refused: what has begun for them need not be finished.
    refused: Mutex<HashSet<Key>>,
}

/// Why an attempt ended without success.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{}", driver_call::status(.0))]
    Driver(Box<Status>),
    #[error("VolumeAttributesClass `{0}` {1}")]
    Class(String, #[source] ClassError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl Worker {
    pub(super) fn new(context: Context, scope: Scope) -> Self {
        let timeout = context.settings.resize.timeout;
        let component = format!("external-resizer {}", context.driver.name());
        Self {
            objects: Objects::new(context.client.clone()),
            controller: ControllerClient::new(context.driver.connection().with_timeout(timeout)),
            events: context.events.as_component(&component),
            scope,
            refused: Mutex::default(),
            context,
        }
    }

    /// Whether anything is to be done for a claim. Cheap: it is asked for every claim at every change.
    pub(super) fn wants(&self, claim: &Claim) -> bool {
        let differs = claim.attributes_class.is_some()
            && claim.attributes_class != claim.current_attributes_class;
        (differs || claim.modifying) && self.volume_of(claim).is_some()
    }

    fn volume_of(&self, claim: &Claim) -> Option<Arc<Volume>> {
        let volume = self.context.cluster.volume_of(claim);
        volume.filter(|volume| self.scope.has(volume))
    }

    /// A claim is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.refused.lock().remove(uid);
    }

    /// Brings one claim forward. Called twice: the second finds nothing to do.
    pub(super) async fn work(self: Arc<Self>, key: Key) -> Verdict {
        let Some(claim) = self.context.cluster.claims.store().get(&key) else {
            return Verdict::Done;
        };
        let Some(volume) = self.volume_of(&claim).filter(|_| self.wants(&claim)) else {
            self.forget(&key);
            return Verdict::Done;
        };
        let mut round = 1;
        loop {
            match self.attempt(&key, &claim, &volume).await {
                Ok(verdict) => return verdict,
                Err(Failure::Object(ObjectError::Gone(_))) => return Verdict::Done,
                Err(Failure::Object(ObjectError::Conflict(_))) if round < ROUNDS => round += 1,
                Err(failure) => return self.report(&claim, &failure),
            }
        }
    }

    async fn attempt(&self, key: &Key, claim: &Claim, volume: &Volume) -> Result<Verdict, Failure> {
        let live = self
            .objects
            .claim(&claim.namespace, &claim.name, &claim.uid);
        let live = Progress::read(&live.await?);
        let refused = self.refused.lock().contains(key);
        match next_step(&live, refused) {
            Step::Rest => Ok(Verdict::Done),
            Step::Cancel => {
                self.write(claim, &patch::cancelled(&live)).await?;
                self.forget(key);
                let text = "Canceled modify.";
                self.events
                    .normal(claim.reference(), "VolumeModifyCanceled", text);
                Ok(Verdict::Done)
            }
            Step::Modify(target) => self.modify(key, claim, volume, live, &target).await,
        }
    }

    async fn modify(
        &self,
        key: &Key,
        claim: &Claim,
        volume: &Volume,
        mut live: Progress,
        target: &str,
    ) -> Result<Verdict, Failure> {
        let context = &self.context;
        let driver = context.driver.name();
        let class = attributes_class::find(&context.client, &context.server, driver, target).await;
        let class = match class {
            Ok(class) => class,
            Err(error) => return self.unusable(key, claim, &live, target, error).await,
        };
        let secret = volume.modify_secret.as_deref();
        let secret = secret.or(volume.csi.controller_expand_secret.as_deref());
        let mut request = ControllerModifyVolumeRequest {
            volume_id: volume.csi.volume_handle.clone(),
            mutable_parameters: class.parameters,
            secrets: secrets::read(&context.client, secret).await?,
        };
        if context.settings.resize.modify_metadata {
            for (name, value) in [
                ("csi.storage.k8s.io/pvc/name", &claim.name),
                ("csi.storage.k8s.io/pvc/namespace", &claim.namespace),
                ("csi.storage.k8s.io/pv/name", &volume.name),
            ] {
                let parameters = &mut request.mutable_parameters;
                parameters.insert(name.to_owned(), value.clone());
            }
        }
        if let Some(patch) = patch::begun(&live, target) {
            live = self.write(claim, &patch).await?;
        }
        let text = format!(
            "external resizer is modifying volume {} with vac {target}",
            claim.name
        );
        self.events.normal(claim.reference(), "VolumeModify", text);
        self.forget(key);
        let answer = self
            .controller
            .clone()
            .controller_modify_volume(request)
            .await;
        if let Err(status) = answer {
            return self.not_modified(key, claim, &live, target, status).await;
        }
        self.settle(claim, volume, &live, target).await
    }

    /// There is no class to change the volume to.
    async fn unusable(
        &self,
        key: &Key,
        claim: &Claim,
        live: &Progress,
        target: &str,
        error: ClassError,
    ) -> Result<Verdict, Failure> {
        // Nobody can say what was asked of the driver: what is wanted now is next.
        let patch = match &error {
            ClassError::Unreadable(_) => return Err(Failure::Class(target.to_owned(), error)),
            ClassError::NoKind | ClassError::Missing => patch::pending(live, target),
            // As if the driver had refused it. It is not asked: parameters for another driver may mean something to it.
            ClassError::OtherDriver(_) => {
                let message = format!("VolumeAttributesClass `{target}` {error}");
                let code = code_label(Code::InvalidArgument);
                patch::failed(live, target, code, &message, true)
            }
        };
        self.refused.lock().insert(Arc::clone(key));
        if let Some(patch) = patch {
            self.write(claim, &patch).await?;
        }
        Err(Failure::Class(target.to_owned(), error))
    }

    /// The volume's object first: a claim that is done is not looked at again.
    async fn settle(
        &self,
        claim: &Claim,
        volume: &Volume,
        live: &Progress,
        target: &str,
    ) -> Result<Verdict, Failure> {
        if let Some(patch) = patch::volume_modified(volume, target) {
            self.objects.patch_volume(&volume.name, &patch).await?;
        }
        let live = self.write(claim, &patch::completed(live, target)).await?;
        tracing::info!(
            namespace = claim.namespace,
            claim = claim.name,
            volume = volume.name,
            class = target,
            "Volume modified."
        );
        let text = format!(
            "external resizer modified volume {} with vac {target} successfully",
            claim.name
        );
        self.events
            .normal(claim.reference(), "VolumeModifySuccessful", text);
        // Another one is wanted meanwhile.
        let again = live.wanted.is_some_and(|wanted| wanted != target);
        Ok(if again {
            Verdict::After(self.context.settings.resize.retry.first, None)
        } else {
            Verdict::Done
        })
    }

    /// The driver said no, or nothing.
    async fn not_modified(
        &self,
        key: &Key,
        claim: &Claim,
        live: &Progress,
        target: &str,
        status: Status,
    ) -> Result<Verdict, Failure> {
        let code = status.code();
        let open = driver_call::may_be_running(code) || code == Code::ResourceExhausted;
        if !open {
            self.refused.lock().insert(Arc::clone(key));
        }
        let infeasible = code == Code::InvalidArgument;
        let message = driver_call::status(&status);
        let patch = patch::failed(live, target, code_label(code), &message, infeasible);
        if let Some(patch) = patch {
            self.write(claim, &patch).await?;
        }
        let verdict = self.report(claim, &Failure::Driver(Box::new(status)));
        Ok(if infeasible {
            Verdict::After(self.context.settings.resize.retry.longest, Some(message))
        } else {
            verdict
        })
    }

    async fn write(&self, claim: &Claim, patch: &Value) -> Result<Progress, ObjectError> {
        let objects = &self.objects;
        let written = objects.patch_claim_status(&claim.namespace, &claim.name, patch);
        Ok(Progress::read(&written.await?))
    }

    /// Says what is wrong, and decides when to try again.
    fn report(&self, claim: &Claim, failure: &Failure) -> Verdict {
        let message = failure.to_string();
        tracing::warn!(
            namespace = claim.namespace,
            claim = claim.name,
            reason = message,
            "A volume cannot be modified; trying again."
        );
        if !matches!(failure, Failure::Object(_)) {
            let about = claim.reference();
            self.events
                .warning(about, "VolumeModifyFailed", message.clone());
        }
        Verdict::Retry(message)
    }
}
