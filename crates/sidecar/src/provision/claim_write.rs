//! Writes to claims: always an update of what was just read, because upstream's role allows no patch.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, Client, ResourceExt as _, api::PostParams};

/// How often a claim that changed under our hands is read again.
const ATTEMPTS: usize = 5;

/// Lets `change` work on the claim of this name (and uid, where there is one), and writes it if `change` says so. A claim that is gone, or
/// another one under its name, is left alone. Somebody else's write in between is not lost: `change` sees it.
pub(crate) async fn change(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: Option<&str>,
    change: impl Fn(&mut PersistentVolumeClaim) -> bool,
) -> kube::Result<()> {
    let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let Some(mut live) = api.get_opt(name).await? else {
            return Ok(());
        };
        let other = uid.is_some_and(|uid| live.uid().as_deref() != Some(uid));
        if other || !change(&mut live) {
            return Ok(());
        }
        match api.replace(name, &PostParams::default(), &live).await {
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            result => return result.map(|_| ()),
        }
    }
}
