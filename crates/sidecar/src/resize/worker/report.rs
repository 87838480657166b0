//! Says why a claim does not have its new size yet, where people look.

use std::sync::Arc;

use stowage_kubernetes::queue::{Key, Verdict};

use super::Worker;
use crate::cluster::claim::Claim;
use crate::cluster::volume::Volume;
use crate::resize::failure::Failure;
use crate::resize::patch;
use crate::resize::progress::Progress;
use crate::resize::step::{LastCall, Refusal};

impl Worker {
    /// Says what is wrong, where people look, and decides when to try again.
    pub(super) async fn report(
        &self,
        key: Key,
        claim: &Claim,
        volume: &Volume,
        live: Option<&Progress>,
        failure: &Failure,
    ) -> Verdict {
        let message = failure.to_string();
        let refusal = failure.refusal();
        tracing::warn!(
            namespace = claim.namespace,
            claim = claim.name,
            volume = volume.name,
            reason = message,
            "A volume cannot be expanded; trying again."
        );
        if refusal != Refusal::Open && matches!(failure, Failure::Driver(_)) {
            self.last_calls
                .lock()
                .insert(Arc::clone(&key), LastCall::Refused);
        }
        let text = match failure {
            Failure::InUse(_) => format!(
                "Unable to expand {}/{} because CSI driver {} only supports offline expansion and volume is currently in-use",
                claim.namespace, claim.name, self.rules.driver
            ),
            _ => format!(
                "resize volume \"{}\" by resizer \"{}\" failed: {message}",
                volume.name, self.rules.driver
            ),
        };
        if let Some(live) = live.filter(|_| failure.is_for_the_claim()) {
            self.mark_failed(claim, live, &text, refusal).await;
        }
        if !matches!(failure, Failure::Object(_)) {
            self.events
                .warning(claim.reference(), "VolumeResizeFailed", text);
        }
        match refusal {
            Refusal::Infeasible => Verdict::After(self.slow, Some(message)),
            Refusal::InUse if self.wait_for_pods && self.in_use.wait(key, claim).await => {
                Verdict::After(self.slow, Some(message))
            }
            Refusal::InUse | Refusal::Open | Refusal::Final => Verdict::Retry(message),
        }
    }

    async fn mark_failed(&self, claim: &Claim, live: &Progress, text: &str, refusal: Refusal) {
        let infeasible = refusal == Refusal::Infeasible;
        let Some(patch) = patch::failed(live, text, infeasible, self.record()) else {
            return;
        };
        if let Err(error) = self.write(claim, &patch).await {
            tracing::debug!(claim = claim.name, %error, "An error cannot be written down.");
        }
    }
}
