//! The node that a claim's volume is to be made for, written on the claim: by the scheduler, or by the first controller
//! to come where there is one on every node.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use stowage_kubernetes::metadata::{self, Which};

use crate::cluster::claim::{Claim, SELECTED_NODE};

/// Takes the choice back, if it is still the one that `claim` was planned with: somebody chooses again.
pub(crate) async fn take_back(client: &Client, claim: &Claim) -> kube::Result<()> {
    change(client, claim, |live| {
        let annotations = live.annotations.get_or_insert_default();
        let selected = annotations.get(SELECTED_NODE);
        let same = selected.is_some() && selected == claim.selected_node.as_ref();
        same && annotations.remove(SELECTED_NODE).is_some()
    })
    .await
}

/// Takes a claim for `node`. The first one to write its name gets it; that comes back as a change of the claim.
pub(crate) async fn take(client: &Client, claim: &Claim, node: &str) -> kube::Result<()> {
    change(client, claim, |live| {
        let annotations = live.annotations.get_or_insert_default();
        let free = !annotations.contains_key(SELECTED_NODE);
        if free {
            annotations.insert(SELECTED_NODE.to_owned(), node.to_owned());
        }
        free
    })
    .await
}

async fn change(
    client: &Client,
    claim: &Claim,
    change: impl Fn(&mut ObjectMeta) -> bool,
) -> kube::Result<()> {
    let which = Which {
        namespace: &claim.namespace,
        name: &claim.name,
        uid: Some(&claim.uid),
    };
    metadata::change::<PersistentVolumeClaim>(client, which, change).await
}

/// How long a node waits before it takes a claim that any node may take: they do not all try at once.
pub(crate) fn jitter((base, longest): (Duration, Duration)) -> Duration {
    base.mul_f64(fastrand::f64()).min(longest)
}
