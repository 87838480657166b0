//! Intents that are no reason to delete a volume, and volumes that are somebody's: a person decides.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stowage_kubernetes::queue::Verdict;

use super::{Provisioner, shown};
use crate::cluster::volume::Volume;
use crate::intent::{Intent, seconds};
use crate::trust::{self, Distrust};

/// How often a person is reminded.
const REMIND: Duration = Duration::from_secs(3600);

impl Provisioner {
    /// Whether a volume may be deleted because of this intent.
    pub(super) fn trusted(&self, intent: &Intent) -> Result<(), Distrust> {
        let (journal, settings) = (&self.context.journal, &self.context.settings.intents);
        if settings.forced.contains(&intent.volume) {
            return Ok(());
        }
        let origin = journal.origin(&intent.claim.uid);
        let now = seconds(SystemTime::now());
        trust::judge(origin.as_ref(), journal.cluster(), settings.age_limit, now)
    }

    /// Says that a person has to decide. The intent stays. Called twice: it is said again.
    pub(super) fn hold(&self, intent: &Intent, distrust: Distrust) -> Verdict {
        let volume = &intent.volume;
        let message = format!(
            "volume `{volume}` for claim `{}`, which is gone, may exist on the driver, but its intent is not enough to \
             delete it: {distrust}. Find out who uses it; then start the sidecar with --force-intent={volume}, which \
             deletes it unless a PersistentVolume has it",
            shown(intent)
        );
        tracing::warn!(claim = %shown(intent), volume, reason = %distrust, "An intent waits for a person: see --list-intents and --force-intent.");
        let about = self.context.journal.reference();
        self.context.events.warning(about, "IntentHeld", message);
        let mut held = self.held.lock();
        held.insert(intent.claim.uid.clone());
        self.metrics.held(held.len());
        Verdict::After(REMIND, None)
    }

    /// The intent is carried out: there is a volume with an object, or there is none at all.
    pub(super) fn settle(&self, intent: &Intent, made: bool) {
        self.context.journal.forget(&intent.claim.uid);
        self.limits.ended(intent, made);
        let mut held = self.held.lock();
        if held.remove(&intent.claim.uid) {
            self.metrics.held(held.len());
        }
    }

    /// How many intents wait for a person.
    pub(crate) fn held(&self) -> usize {
        self.held.lock().len()
    }

    /// The PersistentVolume of this driver that has a volume, whatever it is called. Where every node has a driver of
    /// its own, the same id may be another volume on another node.
    pub(super) fn object_of(&self, id: &str) -> Option<String> {
        let all = self.context.cluster.volumes.store().all();
        let ours = |volume: &Arc<Volume>| self.scope.has(volume);
        let owner = all
            .into_iter()
            .filter(ours)
            .find(|volume| volume.csi.volume_handle == id);
        owner.map(|volume| volume.name.clone())
    }

    /// Says that a volume is somebody's.
    pub(super) fn spare(&self, intent: &Intent, id: &str, owner: &str) {
        let message = format!(
            "volume `{id}` was made for claim `{}`, which does not take it, but it was not deleted: PersistentVolume \
             `{owner}` has it",
            shown(intent)
        );
        tracing::warn!(claim = %shown(intent), handle = id, owner, "A volume was not deleted again: it has a PersistentVolume.");
        let about = self.context.journal.reference();
        self.context.events.warning(about, "VolumeInUse", message);
    }
}
