//! Keeps what is being copied until the copies are made.
//!
//! A claim keeps its finalizer until somebody deletes it; a snapshot loses it with the last claim that waits for it.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, ResourceExt as _};
use stowage_api::snapshot::VolumeSnapshot;
use stowage_kubernetes::answer::{self, Answer};
use stowage_kubernetes::metadata::{self, Which, add_finalizer, remove_finalizer};
use stowage_kubernetes::queue::{Queue, Verdict};

use crate::cluster::claim::{CLONING_PROTECTION, Original};
use crate::role::Context;

/// Keeps a snapshot that is being restored, as upstream's provisioner does from 6.0 on.
pub(super) const SNAPSHOT_PROTECTION: &str =
    "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// How many snapshots are listed at a time.
const PAGE: u32 = 500;

/// Keeps what a claim copies, if it is still the object of this uid. Called twice: the finalizer is there once.
pub(crate) async fn keep(context: &Context, original: Original<'_>, uid: &str) -> kube::Result<()> {
    let client = &context.client;
    let which = which(original, Some(uid));
    if let Original::Claim { .. } = original {
        return metadata::change::<PersistentVolumeClaim>(client, which, |live| {
            add_finalizer(live, CLONING_PROTECTION)
        })
        .await;
    }
    let kept = metadata::change::<VolumeSnapshot>(client, which, |live| {
        add_finalizer(live, SNAPSHOT_PROTECTION)
    });
    let Err(error) = kept.await else {
        return Ok(());
    };
    match Answer::of(&error) {
        // Roles of older provisioners do not allow it, and those did without.
        Answer::Forbidden(reason) => {
            tracing::debug!(reason, "A snapshot is not protected.");
            Ok(())
        }
        _ => Err(error),
    }
}

/// Works on an original: when nobody waits for a copy of it any more, it is let go. Called twice: it is free.
pub(crate) async fn release(context: Context, key: &str) -> Verdict {
    let Some(original) = Original::parse(key) else {
        return Verdict::Done;
    };
    if context.cluster.claims.store().count_in_group(key) > 0 {
        // The last copy brings us back.
        return Verdict::Done;
    }
    let which = which(original, None);
    let released = match original {
        Original::Claim { .. } => {
            metadata::change::<PersistentVolumeClaim>(&context.client, which, |live| {
                live.deletion_timestamp.is_some() && remove_finalizer(live, CLONING_PROTECTION)
            })
            .await
        }
        Original::Snapshot { .. } if !context.server.snapshots => Ok(()),
        Original::Snapshot { .. } => {
            metadata::change::<VolumeSnapshot>(&context.client, which, |live| {
                remove_finalizer(live, SNAPSHOT_PROTECTION)
            })
            .await
        }
    };
    match released {
        Ok(()) => Verdict::Done,
        Err(error) => {
            let reason = answer::chain(&error);
            tracing::warn!(
                key,
                reason,
                "What was copied keeps its finalizer; trying again."
            );
            Verdict::Retry(reason)
        }
    }
}

fn which<'a>(original: Original<'a>, uid: Option<&'a str>) -> Which<'a> {
    let (Original::Claim { namespace, name } | Original::Snapshot { namespace, name }) = original;
    Which {
        namespace,
        name,
        uid,
    }
}

/// Finds snapshots that a process kept and did not live to let go.
pub(crate) async fn find_kept_snapshots(context: &Context, originals: &Queue) {
    if !context.server.snapshots || !context.driver.capabilities().create_delete_snapshot() {
        return;
    }
    let api = Api::<VolumeSnapshot>::all(context.client.clone());
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let listed = match api.list_metadata(&page).await {
            Ok(listed) => listed,
            Err(error) => {
                let reason = answer::chain(&error);
                tracing::warn!(
                    reason,
                    "Snapshots cannot be listed: one that was kept while it was copied may stay so."
                );
                return;
            }
        };
        let next = listed
            .metadata
            .continue_
            .clone()
            .filter(|next| !next.is_empty());
        for snapshot in listed.items.iter().filter(|one| is_kept(one)) {
            let namespace = snapshot.namespace().unwrap_or_default();
            let original = Original::Snapshot {
                namespace: &namespace,
                name: &snapshot.name_any(),
            };
            originals.add(original.to_string());
        }
        match next {
            Some(next) => page = page.continue_token(&next),
            None => return,
        }
    }
}

fn is_kept(snapshot: &PartialObjectMeta<VolumeSnapshot>) -> bool {
    let mut finalizers = snapshot.finalizers().iter();
    finalizers.any(|known| known == SNAPSHOT_PROTECTION)
}
