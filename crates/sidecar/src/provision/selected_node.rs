//! The node that a claim's volume is to be made for, written on the claim: by the scheduler, or by the first controller
//! to come where there is one on every node.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Client, ResourceExt as _};

use super::claim_write;
use crate::cluster::claim::{Claim, SELECTED_NODE};

/// Takes the choice back, if it is still the one that `claim` was planned with: somebody chooses again.
pub(crate) async fn take_back(client: &Client, claim: &Claim) -> kube::Result<()> {
    let remove = |live: &mut PersistentVolumeClaim| {
        let selected = live.annotations().get(SELECTED_NODE);
        let same = selected.is_some() && selected == claim.selected_node.as_ref();
        same && live.annotations_mut().remove(SELECTED_NODE).is_some()
    };
    change(client, claim, remove).await
}

/// Takes a claim for `node`. The first one to write its name gets it; that comes back as a change of the claim.
pub(crate) async fn take(client: &Client, claim: &Claim, node: &str) -> kube::Result<()> {
    let take = |live: &mut PersistentVolumeClaim| {
        let free = !live.annotations().contains_key(SELECTED_NODE);
        if free {
            let name = node.to_owned();
            live.annotations_mut()
                .insert(SELECTED_NODE.to_owned(), name);
        }
        free
    };
    change(client, claim, take).await
}

async fn change(
    client: &Client,
    claim: &Claim,
    change: impl Fn(&mut PersistentVolumeClaim) -> bool,
) -> kube::Result<()> {
    let uid = Some(claim.uid.as_str());
    claim_write::change(client, &claim.namespace, &claim.name, uid, change).await
}

/// How long a node waits before it takes a claim that any node may take: they do not all try at once.
pub(crate) fn jitter(uid: &str, (base, longest): (Duration, Duration)) -> Duration {
    let seed = std::collections::hash_map::RandomState::new();
    let random = std::hash::BuildHasher::hash_one(&seed, uid);
    let span = u64::try_from(base.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(random % span).min(longest)
}
