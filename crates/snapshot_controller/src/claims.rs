//! Lets claims go that were kept while snapshots of them were taken.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use stowage_api::snapshot::names::CLAIM_AS_SOURCE;
use stowage_kubernetes::metadata::{self, Which, remove_finalizer};
use stowage_kubernetes::object_error::explain;
use stowage_kubernetes::queue::{Key, Verdict};

use crate::cluster::Cluster;
use crate::request::{Kind, by};
use crate::write::{CLAIMS, Writer};

/// Releases a claim, named as `namespace/name`, of which no snapshot is being taken. Called twice: the second finds
/// nothing to do.
pub(crate) async fn release(cluster: Arc<Cluster>, writer: Writer, key: Key) -> Verdict {
    let held = cluster.claims.store().in_group(&by::name(&key));
    let requests = cluster.requests.of(Kind::Single).store();
    let in_use = requests.count_in_group(&by::claim(&key)) > 0;
    let Some((namespace, name)) = key.split_once('/') else {
        return Verdict::Done;
    };
    if in_use || !held.iter().any(|claim| claim.protected) {
        return Verdict::Done;
    }
    let which = Which {
        namespace,
        name,
        uid: None,
    };
    // An update and no patch: upstream's role allows no more.
    let released = metadata::change::<PersistentVolumeClaim>(&writer.client, which, |claim| {
        remove_finalizer(claim, CLAIM_AS_SOURCE)
    });
    match released.await.map_err(explain("update", CLAIMS)) {
        Ok(()) => Verdict::Done,
        Err(error) => {
            let reason = error.to_string();
            tracing::warn!(
                claim = &*key,
                reason,
                "The finalizer of a claim cannot be removed; trying again."
            );
            Verdict::Retry(reason)
        }
    }
}
