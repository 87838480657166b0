//! Deletes volumes that nobody claims any more, and guards the objects of those that exist.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use k8s_openapi::api::core::v1::{PersistentVolume, SecretReference};
use kube::{
    Api,
    api::{DeleteParams, Preconditions},
};
use stowage_csi::proto::csi::{DeleteVolumeRequest, controller_client::ControllerClient};

use super::{metrics::ProvisionMetrics, parameters::Parameters, templates::Filling};
use crate::{
    cluster::volume::{DELETION_PROTECTION, DeletionSecret, Phase, Reclaim, Volume},
    driver_call, finalizer,
    intent::Segment,
    queue::Verdict,
    role::Context,
    secrets,
};

/// The worker on volumes.
pub(crate) struct Deleter {
    context: Context,
    metrics: ProvisionMetrics,
    /// With a controller on every node: what its driver said of this node.
    own_segment: Option<Option<Segment>>,
}

/// What is to be done about a volume.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// It is attached somewhere: a change of the attachment brings it back.
    Wait,
    Protect,
    Unprotect,
    Delete,
}

impl Deleter {
    pub(crate) fn new(
        context: Context,
        metrics: ProvisionMetrics,
        own_segment: Option<Option<Segment>>,
    ) -> Self {
        Self {
            context,
            metrics,
            own_segment,
        }
    }

    /// Works on one volume. Called twice: a driver answers a second deletion with success.
    pub(crate) async fn work(self: Arc<Self>, name: &str) -> Verdict {
        let Some(volume) = self.context.cluster.volumes.store().get(name) else {
            return Verdict::Done;
        };
        let is_ours = match &self.own_segment {
            None => true,
            Some(segment) => is_on(&volume, segment.as_ref()),
        };
        if !is_ours {
            return Verdict::Done;
        }
        let attachments = self.context.cluster.attachments.store();
        let result = match next_step(&volume, attachments.count_in_group(name)) {
            Step::Nothing => Ok(()),
            Step::Wait => {
                let message = "it is still attached to a node".to_owned();
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
            finalizer::add(&api, &volume.name, &volume.uid, DELETION_PROTECTION).await
        } else {
            finalizer::remove(&api, &volume.name, &volume.uid, DELETION_PROTECTION).await
        };
        changed.map_err(|error| driver_call::chain(&error))
    }

    /// First the volume, then its object, then the finalizer: whoever dies in between finds the object again.
    async fn delete(&self, volume: &Volume) -> Result<(), String> {
        let started = Instant::now();
        let secret = self.secret(volume)?;
        let secrets = match secrets::read(&self.context.client, secret.as_ref()).await {
            Ok(secrets) => secrets,
            // The driver may do without; if not, it says so.
            Err(error) if error.is_missing() => Default::default(),
            Err(error) => return Err(driver_call::chain(&error)),
        };
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
                driver_call::chain(&error)
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

    async fn delete_object(&self, volume: &Volume) -> kube::Result<()> {
        let api = self.api();
        if !volume.deleting {
            let same = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(volume.uid.clone()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            match api.delete(&volume.name, &same).await {
                // Gone, or another object of this name by now.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(()),
                result => result.map(|_| ())?,
            }
        }
        finalizer::remove(&api, &volume.name, &volume.uid, DELETION_PROTECTION).await
    }

    /// The secret that the volume was made with.
    fn secret(&self, volume: &Volume) -> Result<Option<SecretReference>, String> {
        match &volume.deletion_secret {
            DeletionSecret::None => return Ok(None),
            DeletionSecret::Named(secret) => return Ok(Some(secret.clone())),
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
        let filling = Filling {
            volume: &volume.name,
            claim,
            namespace,
            annotations: &BTreeMap::new(),
        };
        let secret = template.resolve(filling);
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
    if !volume.provisioned_by_us {
        return Step::Nothing;
    }
    let protected = volume.has_finalizer(DELETION_PROTECTION);
    match (volume.reclaim, volume.phase) {
        (Reclaim::Keep, _) if protected => Step::Unprotect,
        (Reclaim::Keep, _) => Step::Nothing,
        // Somebody else let it go: the volume was deleted, or an administrator decided to keep it.
        (Reclaim::Delete, _) if volume.deleting && !protected => Step::Nothing,
        (Reclaim::Delete, Phase::Released) if attachments > 0 => Step::Wait,
        (Reclaim::Delete, Phase::Released) => Step::Delete,
        (Reclaim::Delete, Phase::Bound) if !protected => Step::Protect,
        (Reclaim::Delete, _) => Step::Nothing,
    }
}

/// Whether a volume is on the node with this segment. A volume that may be anywhere is nobody's in particular, and
/// deleted by whichever node is asked first.
pub(crate) fn is_on(volume: &Volume, segment: Option<&Segment>) -> bool {
    let Some(segment) = segment else { return true };
    let required = volume
        .node_affinity
        .as_ref()
        .and_then(|affinity| affinity.required.as_ref());
    let Some(required) = required else {
        return true;
    };
    required.node_selector_terms.iter().any(|term| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        expressions.iter().all(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            expression.operator == "In"
                && segment
                    .get(&expression.key)
                    .is_some_and(|own| values.contains(own))
        })
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::CSIPersistentVolumeSource, serde_json::json};

    use super::*;

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
            csi: CSIPersistentVolumeSource::default(),
            access_modes: Vec::new(),
            mount_options: Vec::new(),
            block: false,
            class: None,
            node_affinity: None,
            provisioned_by_us: true,
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
        let mut foreign = volume(Released, Delete, true, false);
        foreign.provisioned_by_us = false;
        assert_eq!(next_step(&foreign, 0), Step::Nothing);
    }

    #[test]
    fn a_node_deletes_what_is_on_it() {
        let here = Segment::from([("host".to_owned(), "a".to_owned())]);
        let mut volume = volume(Phase::Released, Reclaim::Delete, true, false);
        assert!(is_on(&volume, Some(&here)));
        let affinity = |value: &str| {
            let expression = json!({"key": "host", "operator": "In", "values": [value]});
            let terms = json!([{"matchExpressions": [expression]}]);
            serde_json::from_value(json!({"required": {"nodeSelectorTerms": terms}})).unwrap()
        };
        volume.node_affinity = Some(affinity("a"));
        assert!(is_on(&volume, Some(&here)));
        volume.node_affinity = Some(affinity("b"));
        assert!(!is_on(&volume, Some(&here)));
    }
}
