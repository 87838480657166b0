//! Deletes volumes that nobody claims any more, and guards the objects of those that exist.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::{PersistentVolume, SecretReference};
use kube::Api;
use stowage_csi::proto::csi::DeleteVolumeRequest;
use stowage_csi::proto::csi::controller_client::ControllerClient;
use stowage_kubernetes::answer;
use stowage_kubernetes::deletion::delete;
use stowage_kubernetes::finalizer::{self, Seen};
use stowage_kubernetes::queue::Verdict;
use stowage_kubernetes::secrets::{self, SecretError};

use super::metrics::ProvisionMetrics;
use super::parameters::Parameters;
use super::scope::Scope;
use super::templates::PlaceholderValues;
use crate::cluster::volume::{DELETION_PROTECTION, DeletionSecret, Phase, Reclaim, Volume};
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
}

/// What is to be done about a volume.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// It is of an in-tree plugin: nobody translates it.
    TellInTree,
    /// It is attached somewhere: a change of the attachment brings it back.
    Wait,
    Protect,
    Unprotect,
    Delete,
}

impl Deleter {
    pub(crate) fn new(context: Context, metrics: ProvisionMetrics, scope: Scope) -> Self {
        Self {
            context,
            metrics,
            scope,
        }
    }

    /// Works on one volume. Called twice: a driver answers a second deletion with success.
    pub(crate) async fn work(self: Arc<Self>, name: &str) -> Verdict {
        let Some(volume) = self.context.cluster.volumes.store().get(name) else {
            return Verdict::Done;
        };
        if !self.scope.has(&volume) {
            return Verdict::Done;
        }
        let attachments = self.context.cluster.attachments.store().in_group(name);
        let result = match next_step(&volume, attachments.len()) {
            Step::Nothing => Ok(()),
            Step::TellInTree => return self.failed(&volume, IN_TREE, Verdict::Done),
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
        Ok(live.is_some_and(|live| live.uid == volume.uid && next_step(&live, 0) == Step::Delete))
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

fn next_step(volume: &Volume, attachments: usize) -> Step {
    if !volume.ours_to_delete {
        return Step::Nothing;
    }
    let protected = volume.has_finalizer(DELETION_PROTECTION);
    if volume.reclaim == Reclaim::Keep {
        return if protected {
            Step::Unprotect
        } else {
            Step::Nothing
        };
    }
    if volume.is_in_tree() {
        return match volume.phase {
            Phase::Released => Step::TellInTree,
            Phase::Bound | Phase::Other => Step::Nothing,
        };
    }
    if volume.deleting && !protected {
        // Somebody else let it go: the volume was deleted, or an administrator decided to keep it.
        return Step::Nothing;
    }
    match volume.phase {
        Phase::Released if attachments > 0 => Step::Wait,
        Phase::Released => Step::Delete,
        Phase::Bound if !protected => Step::Protect,
        Phase::Bound | Phase::Other => Step::Nothing,
    }
}

fn seen(volume: &Volume) -> Seen<'_> {
    Seen {
        name: &volume.name,
        uid: &volume.uid,
        finalizers: &volume.finalizers,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::CSIPersistentVolumeSource;

    use super::*;
    use crate::cluster::volume::CsiSource;

    fn volume(phase: Phase, reclaim: Reclaim, protected: bool, deleting: bool) -> Volume {
        Volume {
            name: "pvc-1".to_owned(),
            uid: "u".to_owned(),
            phase,
            reclaim,
            claim: None,
            size: 1,
            grew: false,
            attributes_class: None,
            modify_secret: None,
            csi: CSIPersistentVolumeSource {
                volume_handle: "v".to_owned(),
                ..CSIPersistentVolumeSource::default()
            }
            .into(),
            access_modes: Vec::new(),
            mount_options: Vec::new(),
            block: false,
            class: None,
            affinity: None,
            ours_to_delete: true,
            deletion_secret: DeletionSecret::None,
            finalizers: if protected {
                vec![DELETION_PROTECTION.to_owned()]
            } else {
                Vec::new()
            },
            deleting,
        }
    }

    #[test]
    fn every_state_of_a_volume_has_its_step() {
        use Phase::{Bound, Other, Released};
        use Reclaim::{Delete, Keep};
        for (phase, reclaim, protected, deleting, attachments, expected) in [
            (Bound, Delete, true, false, 1, Step::Nothing),
            (Bound, Delete, false, false, 0, Step::Protect),
            (Bound, Delete, true, true, 0, Step::Nothing),
            (Other, Delete, true, false, 0, Step::Nothing),
            (Released, Delete, true, false, 0, Step::Delete),
            (Released, Delete, false, false, 0, Step::Delete),
            (Released, Delete, true, true, 0, Step::Delete),
            (Released, Delete, false, true, 0, Step::Nothing),
            (Released, Delete, true, false, 1, Step::Wait),
            (Released, Keep, true, false, 0, Step::Unprotect),
            (Released, Keep, false, false, 0, Step::Nothing),
            (Bound, Keep, true, true, 0, Step::Unprotect),
        ] {
            let volume = volume(phase, reclaim, protected, deleting);
            assert_eq!(next_step(&volume, attachments), expected, "{volume:?}");
        }
        let mut in_tree = volume(Released, Delete, true, false);
        in_tree.csi = CsiSource::default();
        assert_eq!(next_step(&in_tree, 0), Step::TellInTree);
        in_tree.phase = Bound;
        assert_eq!(next_step(&in_tree, 0), Step::Nothing);
        let mut foreign = volume(Released, Delete, true, false);
        foreign.ours_to_delete = false;
        assert_eq!(next_step(&foreign, 0), Step::Nothing);
    }
}
