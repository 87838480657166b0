//! Deletes one object, and no other one of its name.

use std::fmt::Debug;

use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use serde::de::DeserializeOwned;

use crate::answer::is_gone_or_replaced;

/// Deletes the object of this uid. Called twice: it is being deleted already, or gone. Another one of its name is left
/// alone.
pub async fn delete<K>(api: &Api<K>, name: &str, uid: &str) -> kube::Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    let same = DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    });
    match api.delete(name, &same).await {
        Err(error) if is_gone_or_replaced(&error) => Ok(()),
        deleted => deleted.map(|_| ()),
    }
}
