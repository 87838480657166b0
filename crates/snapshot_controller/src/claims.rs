//! Lets claims go that were kept while snapshots of them were taken.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use stowage_api::snapshot::names::CLAIM_AS_SOURCE;
use stowage_kubernetes::queue::{Key, Verdict};

use crate::failure::{Failure, explain};
use crate::request::{Kind, by};
use crate::world::World;
use crate::write::Writer;

/// Releases a claim, named as `namespace/name`, of which no snapshot is being taken. Called twice: the second finds
/// nothing to do.
pub(crate) async fn release(world: Arc<World>, writer: Writer, key: Key) -> Verdict {
    let held = world.claims.store().in_group(&by::name(&key));
    let requests = world.requests.of(Kind::Single).store();
    let in_use = requests.count_in_group(&by::claim(&key)) > 0;
    let Some((namespace, name)) = key.split_once('/') else {
        return Verdict::Done;
    };
    if in_use || !held.iter().any(|claim| claim.protected) {
        return Verdict::Done;
    }
    match remove(&writer, namespace, name).await {
        Ok(()) | Err(Failure::Gone(_)) => Verdict::Done,
        Err(failure) => {
            tracing::warn!(claim = &*key, reason = %failure, "A claim cannot be let go; trying again.");
            Verdict::Retry(failure.to_string())
        }
    }
}

async fn remove(writer: &Writer, namespace: &str, name: &str) -> Result<(), Failure> {
    let api = Api::<PersistentVolumeClaim>::namespaced(writer.client.clone(), namespace);
    let mut claim = api.get(name).await.map_err(explain("get", "claims"))?;
    claim
        .finalizers_mut()
        .retain(|known| known != CLAIM_AS_SOURCE);
    // An update and no patch: upstream's role allows no more.
    let written = api.replace(name, &PostParams::default(), &claim).await;
    written.map_err(explain("update", "claims")).map(|_| ())
}
