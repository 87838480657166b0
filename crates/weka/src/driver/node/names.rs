//! What Kubernetes calls the volumes that are published on this node, for their metrics.
//!
//! There are three sources: the volume's context, if the provisioner passes claims to drivers
//! (`--extra-create-metadata`); the kubelet, which writes the PersistentVolume's name beside a target; and the
//! PersistentVolume, where this node may read it. After a restart only the last two are left. What is not known is empty.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use parking_lot::Mutex;
use stowage_api::quantity;
use stowage_host::blocking;
use stowage_host::kubelet::Note;
use tokio::time::timeout;

use super::annotations::{CLAIM_NAME, CLAIM_NAMESPACE};

const VOLUME_NAME: &str = "csi.storage.k8s.io/pv/name";

/// How long Kubernetes may take: figures do not wait for names.
const TIME_TO_ASK: Duration = Duration::from_secs(2);

/// How long it is not asked again after it refused, or did not answer.
const PAUSE: Duration = Duration::from_secs(600);

/// What is known of one volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) volume: String,
    pub(crate) claim: String,
    pub(crate) namespace: String,
    pub(crate) claim_uid: String,
    pub(crate) class: String,
    pub(crate) cluster: String,
    /// What the PersistentVolume says.
    pub(crate) bytes: Option<i64>,
    /// The PersistentVolume was read: nothing more is to be learned.
    complete: bool,
}

impl Names {
    fn of_context(context: &BTreeMap<String, String>, cluster: &str) -> Self {
        let get = |key: &str| context.get(key).cloned().unwrap_or_default();
        Self {
            volume: get(VOLUME_NAME),
            claim: get(CLAIM_NAME),
            namespace: get(CLAIM_NAMESPACE),
            cluster: cluster.to_owned(),
            ..Self::default()
        }
    }

    /// A claim may be another than the one that the volume was made for.
    fn learn(&mut self, volume: PersistentVolume) {
        let spec = volume.spec.unwrap_or_default();
        let claim = spec.claim_ref.unwrap_or_default();
        self.claim = claim.name.unwrap_or_default();
        self.namespace = claim.namespace.unwrap_or_default();
        self.claim_uid = claim.uid.unwrap_or_default();
        self.class = spec.storage_class_name.unwrap_or_default();
        let bytes = spec.capacity.unwrap_or_default().remove("storage");
        self.bytes = bytes.and_then(|bytes| quantity::size(&bytes.0).ok());
        self.complete = true;
    }
}

#[derive(Debug, Default)]
struct State {
    by_target: HashMap<PathBuf, Names>,
    /// How many were forgotten.
    departures: u64,
}

/// What is known of all volumes here, by target.
#[derive(Debug, Default)]
pub(crate) struct KubernetesNames {
    state: Mutex<State>,
    failed_at: Mutex<Option<Instant>>,
}

impl KubernetesNames {
    /// A volume was published.
    pub(crate) fn note(&self, target: &Path, context: &BTreeMap<String, String>, cluster: &str) {
        let names = Names::of_context(context, cluster);
        self.state.lock().by_target.insert(target.to_owned(), names);
    }

    /// A volume is not published any more.
    pub(crate) fn forget(&self, target: &Path) {
        let mut state = self.state.lock();
        state.by_target.remove(target);
        state.departures += 1;
    }

    /// What is known of the volume at a target; asks whoever may know more.
    pub(crate) async fn look_up(
        &self,
        kube: Option<&kube::Client>,
        target: &Path,
        volume_id: &str,
    ) -> Names {
        let (noted, departures) = {
            let state = self.state.lock();
            (state.by_target.get(target).cloned(), state.departures)
        };
        let mut names = noted.unwrap_or_default();
        if names.complete {
            return names;
        }
        if let Some(volume) = name_from_kubelet(target, volume_id).await {
            names.volume = volume;
        }
        if let Some(kube) = kube {
            self.ask(kube, &mut names, volume_id).await;
        }
        // It may have been forgotten meanwhile, and nobody would do so again.
        let mut state = self.state.lock();
        if state.by_target.contains_key(target) || state.departures == departures {
            state.by_target.insert(target.to_owned(), names.clone());
        }
        names
    }

    async fn ask(&self, kube: &kube::Client, names: &mut Names, volume_id: &str) {
        let paused = self.failed_at.lock().is_some_and(|at| at.elapsed() < PAUSE);
        if names.volume.is_empty() || paused {
            return;
        }
        let api = Api::<PersistentVolume>::all(kube.clone());
        let reason = match timeout(TIME_TO_ASK, api.get_opt(&names.volume)).await {
            Ok(Ok(Some(volume))) if handle(&volume) == Some(volume_id) => {
                return names.learn(volume);
            }
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "Kubernetes does not answer".to_owned(),
        };
        let failed_before = self.failed_at.lock().replace(Instant::now());
        // Many service accounts may not read them, and that is fine: it is logged once.
        if failed_before.is_none() {
            tracing::info!(
                reason,
                "Cannot read PersistentVolumes; metrics of volumes lack the labels that come from them."
            );
        }
    }
}

fn handle(volume: &PersistentVolume) -> Option<&str> {
    let source = volume.spec.as_ref()?.csi.as_ref()?;
    Some(&source.volume_handle)
}

/// The name of the PersistentVolume at a target.
async fn name_from_kubelet(target: &Path, volume_id: &str) -> Option<String> {
    let target = target.to_owned();
    let note = blocking(move || Note::beside(&target)).await?;
    let is_its = note.handle.as_deref() == Some(volume_id);
    note.volume.filter(|_| is_its)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_persistent_volume_keeps_its_capacity_however_it_is_written() {
        for (written, bytes) in [
            ("1Gi", Some(1 << 30)),
            ("1.5Ti", Some(1536 << 30)),
            ("1.5T", Some(1_500_000_000_000)),
            ("1e9", Some(1_000_000_000)),
            ("1073741824", Some(1 << 30)),
            ("-1Gi", None),
            ("large", None),
        ] {
            let volume = json!({ "spec": { "capacity": { "storage": written } } });
            let mut names = Names::default();
            names.learn(serde_json::from_value(volume).unwrap());
            assert_eq!(names.bytes, bytes, "{written}");
        }
    }
}
