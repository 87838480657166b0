//! Writes the object of a volume that was made.

use std::time::Instant;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec};
use kube::Api;
use kube::api::PostParams;
use stowage_csi::proto::csi::Volume as MadeVolume;
use stowage_kubernetes::answer::{self, Answer};
use stowage_kubernetes::queue::Verdict;

use super::{Provisioner, reference, shown, source_label};
use crate::intent::Intent;
use crate::provision::object::{self, Maker};

impl Provisioner {
    pub(super) async fn save(
        &self,
        intent: &Intent,
        volume: MadeVolume,
        started: Instant,
    ) -> Verdict {
        let driver = &self.context.driver;
        let handle = volume.volume_id.clone();
        let maker = Maker {
            driver: driver.name().as_str(),
            identity: &self.identity,
            topology: driver.capabilities().volume_accessibility_constraints(),
        };
        let object = object::persistent_volume(intent, volume, maker);
        let api = Api::<PersistentVolume>::all(self.context.client.clone());
        // Before the write: the watch may be faster than the answer.
        self.written.lock().insert(intent.claim.uid.clone());
        let created = match api.create(&PostParams::default(), &object).await {
            Err(error) if Answer::of(&error) == Answer::Conflict => {
                self.is_same(&api, intent, &handle).await
            }
            Err(error) => Err(answer::chain(&error)),
            Ok(_) => Ok(()),
        };
        if let Err(error) = created {
            self.written.lock().remove(&intent.claim.uid);
            let message = format!("volume `{}` cannot be written: {error}", intent.volume);
            return self.failed(intent, &message);
        }
        self.settle(intent, true);
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
            Err(error) => return Err(answer::chain(&error)),
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

    pub(super) fn is_volume(&self, object: &PersistentVolumeSpec, handle: &str) -> bool {
        let driver = self.context.driver.name().as_str();
        let csi = object.csi.as_ref();
        csi.is_some_and(|csi| csi.volume_handle == handle && csi.driver == driver)
    }
}
