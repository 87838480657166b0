//! Whether claims have what they ask for.

use super::{Expected, Picture, Storage, Wrong};

/// Conditions that a claim has while it grows.
const GROWING: [&str; 3] = [
    "Resizing",
    "FileSystemResizePending",
    "ControllerResizeError",
];

/// Claims that are not bound are somebody else's concern.
pub fn wrong(expected: &Expected, seen: &Picture, storage: &Storage) -> Vec<Wrong> {
    let mut all = Vec::new();
    for (name, wanted) in &expected.claims {
        let Some(claim) = seen.claims.get(name) else {
            continue;
        };
        let volume = claim.bound_to.as_ref().and_then(|to| seen.volumes.get(to));
        let Some(volume) = volume else { continue };
        let mut complain = |what: String| {
            let text = format!("claim {name} of {} bytes: {what}", wanted.size);
            all.push(Wrong::new(text, &[name, &claim.uid, &volume.handle]));
        };
        if claim.size != wanted.size {
            complain(format!("its status says {}", claim.size));
        }
        if volume.size != wanted.size {
            complain(format!("its PersistentVolume says {}", volume.size));
        }
        let growing = |condition: &&String| GROWING.contains(&condition.as_str());
        if let Some(condition) = claim.conditions.iter().find(growing) {
            complain(format!("it still has the condition {condition}"));
        }
        if let Some(kept) = storage.volumes.get(&volume.handle) {
            if kept.size != wanted.size {
                complain(format!("the driver's volume has {}", kept.size));
            }
            if kept.restored != wanted.restored {
                complain(format!("made from a snapshot: {}", kept.restored));
            }
        }
    }
    all
}
