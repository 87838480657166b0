//! Whether VolumeSnapshots, their contents and the driver's snapshots are one to one.

use std::collections::{BTreeMap, BTreeSet};

use stowage_api::snapshot::names::CLAIM_AS_SOURCE;

use super::{ContentSeen, Expected, Picture, SnapshotSeen, Storage, Wrong, kept_by};

pub fn wrong(expected: &Expected, seen: &Picture, storage: &Storage) -> Vec<Wrong> {
    let mut all = requests(expected, seen);
    all.extend(contents(expected, seen, storage));
    all.extend(lost_snapshots(seen, storage));
    all.extend(taken_twice(storage));
    all.extend(protected_claims(seen));
    all
}

fn requests(expected: &Expected, seen: &Picture) -> Vec<Wrong> {
    let missing = expected
        .snapshots
        .iter()
        .filter(|name| !seen.snapshots.contains_key(*name))
        .map(|name| Wrong::new(format!("VolumeSnapshot {name} is gone"), &[name]));
    let mut all: Vec<_> = missing.collect();
    for (name, snapshot) in &seen.snapshots {
        let problem = if snapshot.deleting || !expected.snapshots.contains(name) {
            let kept = kept_by(snapshot.deleting, &snapshot.finalizers);
            Some(format!("should be gone; {kept}"))
        } else {
            unready(snapshot, seen)
        };
        all.extend(problem.map(|problem| {
            let text = format!("VolumeSnapshot {name} ({}) {problem}", snapshot.uid);
            Wrong::new(text, &[name, &snapshot.uid])
        }));
    }
    all
}

fn unready(snapshot: &SnapshotSeen, seen: &Picture) -> Option<String> {
    if !snapshot.ready {
        return Some("is not ready".to_owned());
    }
    if let Some(error) = &snapshot.error {
        return Some(format!("is ready and has an error: {error}"));
    }
    let content = snapshot.content.as_ref();
    let content = content.and_then(|name| seen.contents.get(name));
    match content {
        Some(content) if content.owner_uid == snapshot.uid => None,
        _ => Some("is ready and has no content".to_owned()),
    }
}

fn contents(expected: &Expected, seen: &Picture, storage: &Storage) -> Vec<Wrong> {
    let wanted: BTreeMap<&str, &String> = seen
        .snapshots
        .iter()
        .filter(|(name, _)| expected.snapshots.contains(*name))
        .filter_map(|(_, snapshot)| Some((snapshot.uid.as_str(), snapshot.content.as_ref()?)))
        .collect();
    let mut all = Vec::new();
    for (name, content) in &seen.contents {
        let owner = content.owner_uid.as_str();
        let problem = if content.deleting || wanted.get(owner) != Some(&name) {
            let kept = kept_by(content.deleting, &content.finalizers);
            Some(format!("should be gone; {kept}"))
        } else {
            unfinished(content, storage)
        };
        all.extend(problem.map(|problem| {
            let text = format!("VolumeSnapshotContent {name} {problem}");
            Wrong::new(
                text,
                &[name, owner, content.handle.as_deref().unwrap_or("")],
            )
        }));
    }
    all
}

fn unfinished(content: &ContentSeen, storage: &Storage) -> Option<String> {
    if !content.marks.is_empty() {
        return Some(format!("is still marked {:?}", content.marks));
    }
    let Some(handle) = content.handle.as_ref().filter(|_| content.ready) else {
        return Some("is not ready".to_owned());
    };
    let Some(name) = storage.snapshots.get(handle) else {
        return Some(format!("speaks of `{handle}`, which the driver lacks"));
    };
    let own = format!("snapshot-{}", content.owner_uid);
    (*name != own).then(|| format!("speaks of `{handle}`, which is `{name}` and not `{own}`"))
}

/// Snapshots on the driver that no content knows: nobody will ever delete them.
pub fn lost_snapshots(seen: &Picture, storage: &Storage) -> Vec<Wrong> {
    let known: BTreeSet<_> = seen
        .contents
        .values()
        .filter_map(|content| content.handle.as_ref())
        .collect();
    let lost = storage
        .snapshots
        .iter()
        .filter(|(id, _)| !known.contains(id));
    lost.map(|(id, name)| {
        let text = format!("snapshot `{id}` ({name}) is lost: the driver has it, no content does");
        Wrong::new(text, &[id, name, name.trim_start_matches("snapshot-")])
    })
    .collect()
}

/// A second snapshot under one name is of another moment than its user asked for.
fn taken_twice(storage: &Storage) -> Vec<Wrong> {
    let mut seen = BTreeSet::new();
    let taken = storage.snapshots.values().chain(&storage.deleted_snapshots);
    let again = taken.filter(|name| !seen.insert(name.as_str()));
    again
        .map(|name| {
            let text = format!("`{name}` was taken twice");
            Wrong::new(text, &[name, name.trim_start_matches("snapshot-")])
        })
        .collect()
}

fn protected_claims(seen: &Picture) -> Vec<Wrong> {
    let held = seen.claims.iter().filter(|(_, claim)| {
        let mut finalizers = claim.finalizers.iter();
        finalizers.any(|finalizer| finalizer == CLAIM_AS_SOURCE)
    });
    held.map(|(name, _)| {
        let text = format!("claim {name} is still kept by {CLAIM_AS_SOURCE}");
        Wrong::new(text, &[name])
    })
    .collect()
}
