//! Writes to the metadata of objects that may only be updated: upstream's roles allow no patch of claims and snapshots.
//!
//! Always an update of what was just read, and of the object as it came: a newer server's fields must not be lost.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client, Resource};

use crate::answer::Answer;
use crate::finalizer;

/// How often an object that changed under our hands is read again.
const ATTEMPTS: usize = 5;

/// Which object.
#[derive(Clone, Copy, Debug)]
pub struct Which<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// `None`: whichever has the name.
    pub uid: Option<&'a str>,
}

/// Lets `change` work on the metadata of an object of kind `K`, and writes it if `change` says so. An object that is
/// gone, or another one under its name, is left alone. Somebody else's write in between is not lost: `change` sees it.
pub async fn change<K: Resource<DynamicType = ()>>(
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
        let written = api.replace(which.name, &PostParams::default(), &live).await;
        let Err(error) = written else {
            return Ok(());
        };
        match Answer::of(&error) {
            Answer::Conflict if attempt < ATTEMPTS => {}
            Answer::Gone => return Ok(()),
            _ => return Err(error),
        }
    }
}

/// Adds a finalizer. False: it is there.
pub fn add_finalizer(metadata: &mut ObjectMeta, finalizer: &str) -> bool {
    let known = metadata.finalizers.take().unwrap_or_default();
    let all = finalizer::with(&known, finalizer);
    let added = all.len() > known.len();
    metadata.finalizers = Some(all);
    added
}

/// Removes a finalizer. False: it is not there.
pub fn remove_finalizer(metadata: &mut ObjectMeta, finalizer: &str) -> bool {
    let known = metadata.finalizers.take().unwrap_or_default();
    let rest = finalizer::without(&known, finalizer);
    let removed = rest.len() < known.len();
    metadata.finalizers = Some(rest);
    removed
}
