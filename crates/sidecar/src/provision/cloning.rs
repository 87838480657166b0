//! Lets go of claims that were kept while they were copied.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;

use super::claim_write;
use crate::{
    cluster::claim::{CLONING_PROTECTION, clone_group},
    driver_call,
    queue::Verdict,
    role::Context,
};

/// Works on the claim `<namespace>/<name>`: when it is being deleted and nobody waits for a copy of it, it may go.
/// Called twice: the finalizer is gone the second time.
pub(crate) async fn release(context: Context, key: &str) -> Verdict {
    let Some((namespace, name)) = key.split_once('/') else {
        return Verdict::Done;
    };
    let claims = context.cluster.claims.store();
    if claims.count_in_group(&clone_group(namespace, name)) > 0 {
        // The last copy brings us back.
        return Verdict::Done;
    }
    let let_go = |claim: &mut PersistentVolumeClaim| {
        let finalizers = claim.finalizers_mut();
        let before = finalizers.len();
        finalizers.retain(|known| known != CLONING_PROTECTION);
        finalizers.len() < before && claim.metadata.deletion_timestamp.is_some()
    };
    match claim_write::change(&context.client, namespace, name, None, let_go).await {
        Ok(()) => Verdict::Done,
        Err(error) => Verdict::Retry(driver_call::chain(&error)),
    }
}
