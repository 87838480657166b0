//! Adds and removes one finalizer without losing anybody else's.
//!
//! The list is compared inside the request: two writers at once are a conflict and not a loss. Upstream's roles allow
//! `patch` on volumes and attachments.

use k8s_openapi::serde_json::json;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

/// How often a list that changed under our hands is read again.
const ATTEMPTS: usize = 5;

/// Adds `finalizer` to the object of this name and uid. Called twice: it is there once. An object that is gone, or
/// another one under its name, or being deleted, is left alone.
pub(crate) async fn add<K>(api: &Api<K>, name: &str, uid: &str, finalizer: &str) -> kube::Result<()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    change(api, name, uid, |object| {
        let has = object.finalizers().iter().any(|known| known == finalizer);
        if has || object.meta().deletion_timestamp.is_some() {
            return None;
        }
        let mut all = object.finalizers().to_vec();
        all.push(finalizer.to_owned());
        Some(all)
    })
    .await
}

/// Removes `finalizer`. Called twice: the second finds nothing to do.
pub(crate) async fn remove<K>(
    api: &Api<K>,
    name: &str,
    uid: &str,
    finalizer: &str,
) -> kube::Result<()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    change(api, name, uid, |object| {
        let mut all = object.finalizers().to_vec();
        let before = all.len();
        all.retain(|known| known != finalizer);
        (all.len() < before).then_some(all)
    })
    .await
}

async fn change<K>(
    api: &Api<K>,
    name: &str,
    uid: &str,
    wanted: impl Fn(&K) -> Option<Vec<String>>,
) -> kube::Result<()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut attempt = 0;
    loop {
        attempt += 1;
        let Some(object) = api.get_opt(name).await? else {
            return Ok(());
        };
        if object.uid().as_deref() != Some(uid) {
            return Ok(());
        }
        let Some(finalizers) = wanted(&object) else {
            return Ok(());
        };
        let patch = json!({ "metadata": {
            "uid": uid,
            "resourceVersion": object.resource_version(),
            "finalizers": finalizers,
        }});
        match api
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            result => return result.map(|_| ()),
        }
    }
}
