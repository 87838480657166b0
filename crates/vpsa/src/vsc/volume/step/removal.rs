//! Whether a volume is deleted that its array still has. Our own books may be wrong: others attach and copy volumes as well, and
//! an identity may stand for another volume than it once did. So what the array has just shown decides.

use stowage_api::vpsa::{FORCE_DELETE, VolumeState};

use super::{Observed, Step};
use crate::rest::ServerId;
use crate::rest::wire::Volume as ArrayVolume;
use crate::vsc::condition::Reason;

const ATTACHED: &str = "AttachedOnArray";
const SNAPSHOTS: &str = "SnapshotsOnArray";
const OTHER: &str = "OtherVolume";

/// The reasons of volumes that are not deleted for what their array shows. They wait for people.
pub const REFUSED: [&str; 3] = [ATTACHED, SNAPSHOTS, OTHER];

/// What is to be done about a volume that is to go and that the array has.
pub(super) fn of(volume: &ArrayVolume, observed: &Observed<'_>) -> Step {
    if volume.id.as_str() == observed.forced {
        return Step::DeleteByForce;
    }
    match obstacle(volume, observed) {
        None => Step::Delete,
        Some((word, message)) => {
            Step::Record(VolumeState::Deleting, Reason::not_ready(word, message))
        }
    }
}

/// Why a volume must not be deleted. What is not recorded of it cannot be another.
fn obstacle(volume: &ArrayVolume, observed: &Observed<'_>) -> Option<(&'static str, String)> {
    let (id, array) = (&volume.id, observed.array);
    let group = volume.cg.as_ref().map_or("", |it| it.as_str());
    if !observed.group.is_empty() && group != observed.group {
        return Some((
            OTHER,
            format!(
                "{id} of VPSA `{array}` is in the consistency group `{group}`, and this volume was in `{}`: it is taken for another and not \
                 deleted. {}",
                observed.group,
                how_to_force(id.as_str())
            ),
        ));
    }
    let [wanted, seen] = observed.names;
    // A name that was wanted last may not have come there yet.
    if !seen.is_empty() && ![wanted, seen].contains(&volume.display_name.as_str()) {
        return Some((
            OTHER,
            format!(
                "{id} of VPSA `{array}` is called `{}` there, and `{}` here: it is taken for another and not deleted. If it is this one, \
                 write its name into `spec.displayName`",
                volume.display_name, wanted
            ),
        ));
    }
    if !volume.servers.is_empty() {
        let servers: Vec<&str> = volume.servers.iter().map(ServerId::as_str).collect();
        return Some((
            ATTACHED,
            format!(
                "{id} of VPSA `{array}` is attached to {}, which no VolumeAttachment of this cluster tells of: it is not deleted. Detach it there",
                servers.join(", ")
            ),
        ));
    }
    volume.has_snapshots.then(|| {
        let message = format!(
            "{id} of VPSA `{array}` has snapshots there that no Snapshot of this cluster tells of: it is not deleted. Delete them there"
        );
        (SNAPSHOTS, message)
    })
}

/// What people do who want a volume to be deleted all the same.
pub fn how_to_force(id: &str) -> String {
    format!("To delete it all the same, annotate this Volume with `{FORCE_DELETE}={id}`")
}
