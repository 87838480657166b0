//! Gets rid of volumes that were made and are not wanted.

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use stowage_csi::proto::csi::DeleteVolumeRequest;
use stowage_kubernetes::queue::Verdict;
use stowage_kubernetes::{answer, secrets};

use super::{Provisioner, reference, shown};
use crate::driver_call;
use crate::intent::Intent;
use crate::provision::object::AnswerError;

impl Provisioner {
    /// The driver did not make what it was asked for: what it made goes, and it is asked again later.
    pub(super) async fn reject(
        &self,
        intent: &Intent,
        error: &AnswerError,
        id: Option<String>,
    ) -> Verdict {
        let message = error.to_string();
        if let Some(id) = id {
            if let Err(verdict) = self.delete(intent, &id).await {
                return verdict;
            }
            self.settle(intent, false);
        }
        self.failed(intent, &message)
    }

    /// Nobody waits for the volume any more.
    pub(super) async fn undo(&self, intent: &Intent, id: &str) -> Verdict {
        if let Err(verdict) = self.delete(intent, id).await {
            return verdict;
        }
        self.settle(intent, false);
        Verdict::Done
    }

    async fn delete(&self, intent: &Intent, id: &str) -> Result<(), Verdict> {
        if let Err(distrust) = self.trusted(intent) {
            return Err(self.hold(intent, distrust));
        }
        let Err(reason) = self.try_delete(intent, id).await else {
            return Ok(());
        };
        let message = format!("volume `{id}` cannot be deleted again: {reason}");
        tracing::warn!(claim = %shown(intent), reason = message, "A volume whose claim is gone cannot be deleted; trying again.");
        let about = reference(intent);
        self.context
            .events
            .warning(about, "ProvisioningCleanupFailed", message.clone());
        self.limits.failed(intent);
        Err(Verdict::Retry(message))
    }

    /// A volume that has an object is not ours to undo: it goes with its object. It may have been kept and imported
    /// again under any name, and may be somebody else's where names are short.
    async fn try_delete(&self, intent: &Intent, id: &str) -> Result<(), String> {
        let client = &self.context.client;
        let api = Api::<PersistentVolume>::all(client.clone());
        let object = api.get_opt(&intent.volume).await;
        let object = object.map_err(|error| answer::chain(&error))?;
        let spec = object.and_then(|object| object.spec);
        if spec.is_some_and(|spec| self.is_volume(&spec, id)) {
            return Ok(());
        }
        if let Some(owner) = self.object_of(id) {
            self.spare(intent, id, &owner);
            return Ok(());
        }
        let secrets = secrets::read_if_there(client, intent.secrets.provisioner.as_ref()).await;
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            secrets: secrets.map_err(|error| answer::chain(&error))?,
        };
        let answer = self.driver().delete_volume(request).await;
        answer.map_err(|status| driver_call::status(&status))?;
        tracing::info!(claim = %shown(intent), handle = id, "A volume that nobody waits for was deleted again.");
        Ok(())
    }
}
