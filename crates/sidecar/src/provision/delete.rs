//! Deletes volumes that nobody claims any more, and guards the objects of those that exist.

mod step;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::{PersistentVolume, SecretReference};
use kube::Api;
use parking_lot::Mutex;
use stowage_csi::proto::csi::DeleteVolumeRequest;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_kubernetes::answer;
use stowage_kubernetes::deletion::delete;
use stowage_kubernetes::finalizer::{self, Seen};
use stowage_kubernetes::queue::Verdict;
use stowage_kubernetes::secrets::{self, SecretError};

use self::step::{Doubt, Step, next_step};
use super::metrics::ProvisionMetrics;
use super::parameters::Parameters;
use super::scope::Scope;
use super::templates::PlaceholderValues;
use crate::cluster::volume::{DELETION_PROTECTION, DeletionSecret, Volume};
use crate::cluster::wire::WireVolume;
use crate::driver_call;
use crate::role::Context;

/// What is said of a volume that is not translated.
const IN_TREE: &str = "it is a volume of an in-tree plugin, which is not translated for this driver here: delete it at the \
     storage, then delete the PersistentVolume and, if it stays, its finalizers";

/// The worker on volumes.
pub(crate) struct Deleter {
    context: Context,
    metrics: ProvisionMetrics,
    scope: Scope,
    /// The names of volumes that look as if nobody wanted them, and are kept.
    kept: Mutex<HashSet<String>>,
}

impl Deleter {
    pub(crate) fn new(context: Context, metrics: ProvisionMetrics, scope: Scope) -> Self {
        Self {
            context,
            metrics,
            scope,
            kept: Mutex::default(),
        }
    }

    /// Works on one volume. Called twice: a driver answers a second deletion with success.
    pub(crate) async fn work(self: Arc<Self>, name: &str) -> Verdict {
        let volume = self.context.cluster.volumes.store().get(name);
        let Some(volume) = volume.filter(|volume| self.scope.has(volume)) else {
            self.count_kept(name, false);
            return Verdict::Done;
        };
        let attachments = self.context.cluster.attachments.store().in_group(name);
        let step = self.next_step(&volume, attachments.len());
        self.count_kept(name, matches!(step, Step::Keep(_)));
        let result = match step {
            Step::Nothing => Ok(()),
            Step::TellInTree => return self.failed(&volume, IN_TREE, Verdict::Done),
            Step::Keep(doubt) => return self.keep(&volume, doubt),
            Step::Wait => {
                let nodes: Vec<_> = attachments.iter().map(|one| one.node.as_str()).collect();
                let message = format!("it is still attached to node {}", nodes.join(", "));
                return self.failed(&volume, &message, Verdict::Done);
            }
            Step::Protect => self.protect(&volume, true).await,
            Step::Unprotect => self.protect(&volume, false).await,
            Step::Delete => self.delete(&volume).await,
        };
        match result {
            Ok(()) => Verdict::Done,
            Err(message) => {
                let verdict = Verdict::Retry(message.clone());
                self.failed(&volume, &message, verdict)
            }
        }
    }

    fn next_step(&self, volume: &Volume, attachments: usize) -> Step {
        let releases_static = self.context.server.releases_static_volumes();
        next_step(volume, attachments, releases_static)
    }

    /// Called twice: it is said again, in one Event.
    fn keep(&self, volume: &Volume, doubt: Doubt) -> Verdict {
        let message = doubt.explain(self.context.driver.name().as_str());
        tracing::warn!(
            volume = volume.name,
            handle = volume.csi.volume_handle,
            reason = message,
            "A volume is kept."
        );
        let events = &self.context.events;
        events.warning(volume.reference(), "VolumeKept", message);
        Verdict::Done
    }

    fn count_kept(&self, name: &str, is_kept: bool) {
        let mut kept = self.kept.lock();
        if is_kept {
            kept.insert(name.to_owned());
        } else {
            kept.remove(name);
        }
        self.metrics.kept(kept.len());
    }

    async fn protect(&self, volume: &Volume, protect: bool) -> Result<(), String> {
        let api = self.api();
        let changed = if protect {
            let added = finalizer::add(&api, seen(volume), DELETION_PROTECTION).await;
            added.map(|_| ())
        } else {
            finalizer::remove(&api, seen(volume), DELETION_PROTECTION).await
        };
        changed.map_err(|error| answer::chain(&error))
    }

    /// First the volume, then its object, then the finalizer: whoever dies in between finds the object again.
    async fn delete(&self, volume: &Volume) -> Result<(), String> {
        let started = Instant::now();
        if !self.is_still_to_go(volume).await? {
            return Ok(());
        }
        let secret = self.secret(volume)?;
        let secrets = self.read_secret(volume, secret.as_ref()).await?;
        let timeout = self.context.settings.provision.timeout;
        let connection = self.context.driver.connection().with_timeout(timeout);
        let request = DeleteVolumeRequest {
            volume_id: volume.csi.volume_handle.clone(),
            secrets,
        };
        let answer = ControllerClient::new(connection)
            .delete_volume(request)
            .await;
        answer.map_err(|status| driver_call::status(&status))?;
        self.delete_object(volume).await.map_err(|error| {
            format!(
                "the volume is deleted, its object is not: {}",
                answer::chain(&error)
            )
        })?;
        let class = volume.class.as_deref().unwrap_or_default();
        self.metrics.deleted(class, Some(started.elapsed()));
        tracing::info!(
            volume = volume.name,
            handle = volume.csi.volume_handle,
            "Volume deleted."
        );
        Ok(())
    }

    /// Asks the server: a watch may be behind, and an administrator who has just decided to keep a volume cannot get
    /// its content back.
    async fn is_still_to_go(&self, volume: &Volume) -> Result<bool, String> {
        let live = Api::<WireVolume>::all(self.context.client.clone());
        let live = match live.get_opt(&volume.name).await {
            Ok(live) => live,
            Err(error) => return Err(answer::chain(&error)),
        };
        let live = live.and_then(|live| Volume::read(live, self.context.driver.name().as_str()));
        let is_to_go =
            |live: Volume| live.uid == volume.uid && self.next_step(&live, 0) == Step::Delete;
        Ok(live.is_some_and(is_to_go))
    }

    async fn delete_object(&self, volume: &Volume) -> kube::Result<()> {
        let api = self.api();
        if !volume.deleting {
            delete(&api, &volume.name, &volume.uid).await?;
        }
        finalizer::remove(&api, seen(volume), DELETION_PROTECTION).await
    }

    /// A secret that is gone, or that we may not read, holds nothing: many drivers delete without it, and one that needs
    /// it says so. Where the server does not answer, it is asked again.
    async fn read_secret(
        &self,
        volume: &Volume,
        secret: Option<&SecretReference>,
    ) -> Result<BTreeMap<String, String>, String> {
        match secrets::read(&self.context.client, secret).await {
            Err(error @ SecretError::Unreadable(..)) => Err(answer::chain(&error)),
            Err(error) => {
                let volume = &volume.name;
                tracing::warn!(volume, reason = %error, "A volume is deleted without its secret.");
                Ok(BTreeMap::new())
            }
            Ok(content) => Ok(content),
        }
    }

    /// The secret that the volume was made with.
    fn secret(&self, volume: &Volume) -> Result<Option<SecretReference>, String> {
        match &volume.deletion_secret {
            DeletionSecret::None => return Ok(None),
            DeletionSecret::Named(secret) => return Ok(Some(SecretReference::clone(secret))),
            DeletionSecret::Unknown => {}
        }
        let classes = self.context.cluster.classes.store();
        let Some(class) = volume.class.as_ref().and_then(|name| classes.get(name)) else {
            return Ok(None);
        };
        let parameters = Parameters::read(&class.parameters).map_err(|error| error.to_string())?;
        let Some(template) = parameters.secrets.provisioner else {
            return Ok(None);
        };
        let (namespace, claim) = match &volume.claim {
            Some(claim) => (claim.namespace.as_str(), claim.name.as_str()),
            None => ("", ""),
        };
        let values = PlaceholderValues {
            volume: &volume.name,
            claim,
            namespace,
            annotations: &BTreeMap::new(),
        };
        let secret = values.resolve(&template);
        secret.map(Some).map_err(|error| error.to_string())
    }

    fn failed(&self, volume: &Volume, message: &str, verdict: Verdict) -> Verdict {
        let class = volume.class.as_deref().unwrap_or_default();
        self.metrics.deleted(class, None);
        tracing::warn!(
            volume = volume.name,
            reason = message,
            "A volume cannot be deleted yet."
        );
        let events = &self.context.events;
        events.warning(volume.reference(), "VolumeFailedDelete", message);
        verdict
    }

    fn api(&self) -> Api<PersistentVolume> {
        Api::all(self.context.client.clone())
    }
}

fn seen(volume: &Volume) -> Seen<'_> {
    Seen {
        name: &volume.name,
        uid: &volume.uid,
        finalizers: &volume.finalizers,
    }
}
