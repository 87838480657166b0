//! Lets go of claims that were kept while they were copied.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, ResourceExt as _, api::PostParams};

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
    let api = Api::<PersistentVolumeClaim>::namespaced(context.client.clone(), namespace);
    let released = async {
        let Some(mut claim) = api.get_opt(name).await? else {
            return Ok(());
        };
        let kept = claim
            .finalizers()
            .iter()
            .any(|known| known == CLONING_PROTECTION);
        if claim.metadata.deletion_timestamp.is_none() || !kept {
            return Ok(());
        }
        claim
            .finalizers_mut()
            .retain(|known| known != CLONING_PROTECTION);
        api.replace(name, &PostParams::default(), &claim).await?;
        Ok(())
    };
    let result: kube::Result<()> = released.await;
    match result {
        Ok(()) => Verdict::Done,
        Err(error) => Verdict::Retry(driver_call::chain(&error)),
    }
}
