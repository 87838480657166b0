//! What a failure means for a claim, and who hears of it.

use k8s_openapi::api::core::v1::ObjectReference;
use stowage_kubernetes::answer;
use stowage_kubernetes::queue::Verdict;
use tonic::{Code, Status};

use super::{Provisioner, reference, shown, source_label};
use crate::cluster::claim::Claim;
use crate::driver_call;
use crate::intent::Intent;
use crate::provision::plan::Refusal;
use crate::provision::selected_node;
use crate::provision::source::SourceError;
use crate::provision::topology::TopologyError;

impl Provisioner {
    /// Nothing was sent to the driver.
    pub(super) async fn refuse(&self, claim: &Claim, refusal: Refusal) -> Verdict {
        let message = answer::chain(&refusal);
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
            // Nothing is wrong with the claim.
            Refusal::NotYet(pause) => Verdict::After(*pause, None),
            Refusal::NoRoom { .. } => {
                tracing::debug!(
                    claim = claim.name,
                    reason = message,
                    "A claim is left to other nodes."
                );
                Verdict::Retry(message)
            }
            Refusal::InTree => {
                self.refused(claim, &message);
                let pause = self.context.settings.provision.retry.longest;
                Verdict::After(pause, Some(message))
            }
            _ => {
                if let Refusal::Topology(error) = &refusal
                    && error.waits_for_nodes()
                {
                    self.waiting_for_nodes.lock().insert(claim.uid.clone());
                }
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

    /// The driver said no, or nothing.
    pub(super) async fn not_made(&self, intent: &Intent, status: &Status) -> Verdict {
        let message = driver_call::status(status);
        if driver_call::may_be_running(status.code()) {
            // The same call again, whatever becomes of the claim: only the driver knows what there is.
            return self.failed(intent, &message);
        }
        self.settle(intent, false);
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
                Verdict::After(self.context.settings.provision.retry.longest, Some(message))
            }
            _ => verdict,
        }
    }

    /// Says what is wrong, on the claim and in the metrics. The intent stays.
    pub(super) fn failed(&self, intent: &Intent, message: &str) -> Verdict {
        let source = source_label(intent.source.as_ref());
        self.metrics.made(&intent.class.name, source, None);
        if self.context.journal.get(&intent.claim.uid).is_some() {
            self.limits.failed(intent);
        }
        self.complain(reference(intent), message);
        Verdict::Retry(message.to_owned())
    }

    pub(super) fn complain(&self, about: ObjectReference, message: &str) {
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
            return Verdict::Retry(format!("{why}; {}", answer::chain(&error)));
        }
        // Where every node has a controller, another one shall have its chance: our own turn comes with the change.
        match &self.context.settings.own_node {
            Some(_) => Verdict::Done,
            None => Verdict::Retry(why),
        }
    }
}
