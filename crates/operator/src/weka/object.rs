//! What is written to clients and containers themselves: their finalizer and their status.

use std::fmt::Debug;

use kube::api::PatchParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use stowage_api::weka::FINALIZER;
use stowage_kubernetes::answer;
use stowage_kubernetes::finalizer::{self, Seen};
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};

use super::context::Context;
use super::problem::Problem;
use crate::writer::FIELD_MANAGER;

/// A client or a container.
pub trait Custom:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned
{
}

impl<K> Custom for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
{
}

fn api<K: Custom>(object: &K, context: &Context) -> Api<K> {
    let namespace = object.namespace().unwrap_or_default();
    Api::namespaced(context.client.clone(), &namespace)
}

/// Whether the object is kept by us.
pub fn has_finalizer<K: Custom>(object: &K) -> bool {
    object.finalizers().iter().any(|it| it == FINALIZER)
}

/// Adds the finalizer, before anything is made. False: the object is gone or going. Called twice: it is there once.
pub async fn ensure_finalizer<K: Custom>(object: &K, context: &Context) -> Result<bool, Problem> {
    let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
    let seen = Seen {
        name: &name,
        uid: &uid,
        finalizers: object.finalizers(),
    };
    Ok(finalizer::add(&api(object, context), seen, FINALIZER).await?)
}

/// Lets the object go. Called twice: it is gone.
pub async fn release<K: Custom>(object: &K, context: &Context) -> Result<(), Problem> {
    let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
    let seen = Seen {
        name: &name,
        uid: &uid,
        finalizers: object.finalizers(),
    };
    Ok(finalizer::remove(&api(object, context), seen, FINALIZER).await?)
}

/// Writes the status, unless it is the one before. Called twice: the second time sends nothing.
pub async fn write_status<K: Custom, S: Serialize + PartialEq>(
    object: &K,
    before: Option<&S>,
    status: &S,
    context: &Context,
) -> Result<(), Problem> {
    if before == Some(status) {
        return Ok(());
    }
    let uid = object.uid().unwrap_or_default();
    let patch = ObjectPatch::of(&uid).set(["status"], json!(status));
    let patch = patch.into_patch();
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PARAMS
    };
    let (api, name) = (api(object, context), object.name_any());
    match api.patch_status(&name, &parameters, &patch).await {
        // Nobody is left to be told.
        Err(error) if !answer::is_gone(&error) => Err(Problem::from(error)),
        _ => Ok(()),
    }
}
