//! Compares what a cluster and a driver have with what they should have. Pure: nothing is read here.

mod sizes;
mod snapshots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use self::snapshots::lost_snapshots;

/// What the cluster has of one driver.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// By name.
    pub claims: BTreeMap<String, ClaimSeen>,
    /// By name.
    pub volumes: BTreeMap<String, VolumeSeen>,
    /// By name.
    pub attachments: BTreeMap<String, AttachmentSeen>,
    /// By name.
    pub snapshots: BTreeMap<String, SnapshotSeen>,
    /// By name.
    pub contents: BTreeMap<String, ContentSeen>,
}

#[derive(Clone, Debug, Default)]
pub struct ClaimSeen {
    pub uid: String,
    pub bound_to: Option<String>,
    /// Bytes that it has, not those that it asks for.
    pub size: i64,
    /// Types of its conditions.
    pub conditions: Vec<String>,
    pub deleting: bool,
    pub finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct VolumeSeen {
    pub handle: String,
    pub claim: String,
    pub phase: String,
    pub size: i64,
    pub deleting: bool,
    pub finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct AttachmentSeen {
    pub volume: String,
    pub node: String,
    pub attached: bool,
    pub deleting: bool,
    pub finalizers: Vec<String>,
}

/// A VolumeSnapshot.
#[derive(Clone, Debug, Default)]
pub struct SnapshotSeen {
    pub uid: String,
    pub content: Option<String>,
    pub ready: bool,
    pub error: Option<String>,
    pub deleting: bool,
    pub finalizers: Vec<String>,
}

/// A VolumeSnapshotContent.
#[derive(Clone, Debug, Default)]
pub struct ContentSeen {
    /// Of the VolumeSnapshot.
    pub owner_uid: String,
    pub handle: Option<String>,
    pub ready: bool,
    /// Annotations that say what is being done to it.
    pub marks: Vec<String>,
    pub deleting: bool,
    pub finalizers: Vec<String>,
}

/// What the driver has.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// By volume id.
    pub volumes: BTreeMap<String, VolumeKept>,
    /// Names by snapshot id.
    pub snapshots: BTreeMap<String, String>,
    /// Names of snapshots that it has had.
    pub deleted_snapshots: Vec<String>,
    /// Volume id and node.
    pub publications: BTreeSet<(String, String)>,
}

/// A volume of the driver.
#[derive(Clone, Debug, Default)]
pub struct VolumeKept {
    pub name: String,
    pub size: i64,
    /// It was made from a snapshot.
    pub restored: bool,
}

/// What there should be.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// By name.
    pub claims: BTreeMap<String, ClaimExpected>,
    /// VolumeSnapshots by name.
    pub snapshots: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
pub struct ClaimExpected {
    /// The node that its volume is attached to.
    pub node: Option<String>,
    pub size: i64,
    /// Its volume is made from a snapshot.
    pub restored: bool,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// For people.
    pub what: String,
    /// Words by which log lines about it are found.
    pub traces: Vec<String>,
}

impl Wrong {
    fn new(what: String, traces: &[&str]) -> Self {
        let traces = traces.iter().filter(|trace| !trace.is_empty());
        Self {
            what,
            traces: traces.map(ToString::to_string).collect(),
        }
    }
}

/// All that is wrong. Empty: the driver has what the cluster knows, and both have what they should.
pub fn wrong(expected: &Expected, seen: &Picture, storage: &Storage) -> Vec<Wrong> {
    let mut all = claims(expected, seen);
    all.extend(volumes(expected, seen, storage));
    all.extend(lost_volumes(seen, storage));
    all.extend(attachments(expected, seen));
    all.extend(publications(seen, storage));
    all.extend(sizes::wrong(expected, seen, storage));
    all.extend(snapshots::wrong(expected, seen, storage));
    all
}

fn claims(expected: &Expected, seen: &Picture) -> Vec<Wrong> {
    let missing = expected
        .claims
        .keys()
        .filter_map(|name| match seen.claims.get(name) {
            None => Some(Wrong::new(format!("claim {name} is gone"), &[name])),
            Some(claim) if claim.bound_to.is_none() => Some(Wrong::new(
                format!("claim {name} ({}) is not bound", claim.uid),
                &[name, &claim.uid],
            )),
            Some(_) => None,
        });
    let left = seen
        .claims
        .iter()
        .filter(|(name, claim)| claim.deleting || !expected.claims.contains_key(name.as_str()));
    let left = left.map(|(name, claim)| {
        let text = format!(
            "claim {name} ({}) should be gone; {}",
            claim.uid,
            kept_by(claim.deleting, &claim.finalizers)
        );
        Wrong::new(text, &[name, &claim.uid])
    });
    missing.chain(left).collect()
}

fn volumes(expected: &Expected, seen: &Picture, storage: &Storage) -> Vec<Wrong> {
    let mut all = Vec::new();
    for (name, volume) in &seen.volumes {
        let mut complain = |what: String| {
            let text = format!("PersistentVolume {name} of claim {} {what}", volume.claim);
            all.push(Wrong::new(text, &[name, &volume.handle]));
        };
        if !expected.claims.contains_key(&volume.claim) || volume.deleting {
            let kept = kept_by(volume.deleting, &volume.finalizers);
            complain(format!("should be gone; it is {} and {kept}", volume.phase));
            continue;
        }
        let claim = seen.claims.get(&volume.claim);
        if claim.is_none_or(|claim| claim.bound_to.as_ref() != Some(name)) {
            complain("is not the one its claim is bound to".to_owned());
        }
        if !storage.volumes.contains_key(&volume.handle) {
            let handle = &volume.handle;
            complain(format!("has no volume on the driver: `{handle}` is gone"));
        }
    }
    all
}

/// Volumes on the driver that no object knows: nobody will ever delete them.
pub fn lost_volumes(seen: &Picture, storage: &Storage) -> Vec<Wrong> {
    let known: BTreeSet<&str> = seen.volumes.values().map(|v| v.handle.as_str()).collect();
    let lost = storage
        .volumes
        .iter()
        .filter(|(id, _)| !known.contains(id.as_str()));
    lost.map(|(id, VolumeKept { name, .. })| {
        let text = format!(
            "volume `{id}` ({name}) is lost: the driver has it and no PersistentVolume does"
        );
        Wrong::new(text, &[id, name, name.trim_start_matches("pvc-")])
    })
    .collect()
}

fn attachments(expected: &Expected, seen: &Picture) -> Vec<Wrong> {
    let claim_of = |attachment: &AttachmentSeen| {
        let volume = seen.volumes.get(&attachment.volume);
        volume.map_or("", |volume| volume.claim.as_str()).to_owned()
    };
    let mut wanted: BTreeMap<&str, &str> = expected
        .claims
        .iter()
        .filter_map(|(name, claim)| Some((name.as_str(), claim.node.as_deref()?)))
        .collect();
    let mut all = Vec::new();
    for (name, attachment) in &seen.attachments {
        let claim = claim_of(attachment);
        let traces = [name.as_str(), &attachment.volume];
        if attachment.deleting || wanted.get(claim.as_str()) != Some(&attachment.node.as_str()) {
            let kept = kept_by(attachment.deleting, &attachment.finalizers);
            let text = format!("VolumeAttachment {name} of claim `{claim}` should be gone; {kept}");
            all.push(Wrong::new(text, &traces));
            continue;
        }
        wanted.remove(claim.as_str());
        if !attachment.attached {
            let text = format!("VolumeAttachment {name} of claim `{claim}` is not attached");
            all.push(Wrong::new(text, &traces));
        }
    }
    let missing = wanted.into_iter().map(|(claim, node)| {
        Wrong::new(
            format!("claim {claim} has no VolumeAttachment to {node}"),
            &[claim],
        )
    });
    all.extend(missing);
    all
}

fn publications(seen: &Picture, storage: &Storage) -> Vec<Wrong> {
    let attached = seen.attachments.values().filter_map(|attachment| {
        let volume = seen.volumes.get(&attachment.volume)?;
        let pair = (volume.handle.clone(), attachment.node.clone());
        attachment.attached.then_some(pair)
    });
    let attached: BTreeSet<_> = attached.collect();
    let difference = |(volume, node): &(String, String), what: &str| {
        Wrong::new(format!("volume `{volume}` at {node}: {what}"), &[volume])
    };
    let stray = storage.publications.difference(&attached);
    let stray = stray.map(|one| difference(one, "the driver publishes it, no attachment says so"));
    let void = attached.difference(&storage.publications);
    let void = void.map(|one| {
        difference(
            one,
            "it is said to be attached, the driver does not publish it",
        )
    });
    stray.chain(void).collect()
}

fn kept_by(deleting: bool, finalizers: &[String]) -> String {
    if deleting {
        format!("it is being deleted and kept by {finalizers:?}")
    } else {
        "nobody has deleted it".to_owned()
    }
}
