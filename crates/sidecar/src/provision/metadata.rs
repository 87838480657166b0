//! Writes to the metadata of objects that are not ours: claims and snapshots.
//!
//! Always an update of what was just read, because upstream's roles allow no patch; and of the object as it came, because
//! a newer server's fields must not be lost on the way.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client, Resource};

/// How often an object that changed under our hands is read again.
const ATTEMPTS: usize = 5;

/// Which object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Which<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// `None`: whichever has the name.
    pub(crate) uid: Option<&'a str>,
}

/// Lets `change` work on the metadata of an object of kind `K`, and writes it if `change` says so. An object that is
/// gone, or another one under its name, is left alone. Somebody else's write in between is not lost: `change` sees it.
pub(crate) async fn change<K: Resource<DynamicType = ()>>(
    client: &Client,
    which: Which<'_>,
    change: impl Fn(&mut ObjectMeta) -> bool,
) -> kube::Result<()> {
    let kind = ApiResource::erase::<K>(&());
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), which.namespace, &kind);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let Some(mut live) = api.get_opt(which.name).await? else {
            return Ok(());
        };
        let other = which.uid.is_some() && live.metadata.uid.as_deref() != which.uid;
        if other || !change(&mut live.metadata) {
            return Ok(());
        }
        match api.replace(which.name, &PostParams::default(), &live).await {
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            result => return result.map(|_| ()),
        }
    }
}

/// Adds a finalizer. False: it is there.
pub(crate) fn add_finalizer(metadata: &mut ObjectMeta, finalizer: &str) -> bool {
    let all = metadata.finalizers.get_or_insert_default();
    let missing = !all.iter().any(|known| known == finalizer);
    if missing {
        all.push(finalizer.to_owned());
    }
    missing
}

/// Removes a finalizer. False: it is not there.
pub(crate) fn remove_finalizer(metadata: &mut ObjectMeta, finalizer: &str) -> bool {
    let Some(all) = &mut metadata.finalizers else {
        return false;
    };
    let before = all.len();
    all.retain(|known| known != finalizer);
    all.len() < before
}
