//! How objects are written: patches that name the uid, so that another object of the same name is left alone.

mod usage;

use std::fmt::Debug;

use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stowage_api::vpsa::FINALIZER;
use stowage_kubernetes::answer;
use stowage_kubernetes::finalizer::{self, Seen};
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};
use stowage_kubernetes::object_error::{ObjectError, explain};

/// The kinds of this API group.
pub trait Own:
    Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
{
}

impl<K> Own for K where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
{
}

/// Writes objects.
#[derive(Clone)]
pub struct Writer {
    /// The API server.
    pub client: Client,
}

impl Writer {
    /// All objects of a kind.
    pub fn api<K: Own>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// The object as it is now; none if there is no such object any more.
    pub async fn read<K: Own>(&self, name: &str) -> Result<Option<K>, ObjectError> {
        let found = self.api::<K>().get_opt(name).await;
        found.map_err(explain("get", K::plural(&())))
    }

    /// Keeps the object until [`Writer::let_go`]; what it is then, if it is still there. Called twice: it is kept.
    pub async fn hold<K: Own>(&self, object: &K) -> Result<Option<K>, ObjectError> {
        let (name, uid) = names(object);
        let seen = seen(object, &name, &uid);
        let held = finalizer::add(&self.api::<K>(), seen, FINALIZER).await;
        held.map_err(explain("patch", K::plural(&())))?;
        self.read(&name).await
    }

    /// Lets the object go. Called twice: it is gone.
    pub async fn let_go<K: Own>(&self, object: &K) -> Result<(), ObjectError> {
        let (name, uid) = names(object);
        let seen = seen(object, &name, &uid);
        let gone = finalizer::remove(&self.api::<K>(), seen, FINALIZER).await;
        gone.map_err(explain("patch", K::plural(&())))
    }

    /// Changes the object itself. Returns what is there now.
    pub async fn change<K: Own>(&self, object: &K, changes: ObjectPatch) -> Result<K, ObjectError> {
        let (name, uid) = names(object);
        let patch = ObjectPatch::of(&uid).and(changes).into_patch();
        let written = self.api::<K>().patch(&name, &PARAMS, &patch).await;
        written.map_err(explain("patch", K::plural(&())))
    }

    /// Says how the object is, unless somebody has changed it since it was read: nodes write into the same status. Returns
    /// what is there now.
    pub async fn set_status<K: Own>(
        &self,
        object: &K,
        status: &impl Serialize,
    ) -> Result<K, ObjectError> {
        let (name, uid) = names(object);
        let status = serde_json::to_value(status).map_err(ObjectError::unreadable)?;
        let read = Value::from(object.resource_version());
        let patch = ObjectPatch::of(&uid)
            .test(["metadata", "resourceVersion"], read)
            .set(["status"], status)
            .into_patch();
        let written = self.api::<K>().patch_status(&name, &PARAMS, &patch).await;
        let kind = format!("{}/status", K::plural(&()));
        written.map_err(explain("patch", kind))
    }

    /// All objects of a kind as they are now, and not as they were last heard of: for what cannot be taken back.
    pub async fn list<K: Own>(&self) -> Result<Vec<K>, ObjectError> {
        let listed = self.api::<K>().list(&ListParams::default()).await;
        Ok(listed.map_err(explain("list", K::plural(&())))?.items)
    }

    /// Makes an object, unless there is one of this name; what it is then.
    pub async fn create<K: Own>(&self, object: &K) -> Result<Option<K>, ObjectError> {
        match self
            .api::<K>()
            .create(&kube::api::PostParams::default(), object)
            .await
        {
            Ok(made) => Ok(Some(made)),
            Err(error) if matches!(answer::Answer::of(&error), answer::Answer::Conflict) => {
                Ok(None)
            }
            Err(error) => Err(explain("create", K::plural(&()))(error)),
        }
    }

    /// Has an object deleted if it is still as it was read; whether it is. Called twice: it is being deleted.
    pub async fn delete_unchanged<K: Own>(&self, object: &K) -> Result<bool, ObjectError> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: object.uid(),
            resource_version: object.resource_version(),
        });
        match self.api::<K>().delete(&object.name_any(), &params).await {
            Ok(_) => Ok(true),
            Err(error) => match answer::Answer::of(&error) {
                answer::Answer::Gone => Ok(true),
                answer::Answer::Conflict => Ok(false),
                _ => Err(explain("delete", K::plural(&()))(error)),
            },
        }
    }

    /// Has an object deleted. Called twice: it is being deleted.
    pub async fn delete<K: Own>(&self, name: &str) -> Result<(), ObjectError> {
        match self.api::<K>().delete(name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(answer::Answer::of(&error), answer::Answer::Gone) => Ok(()),
            Err(error) => Err(explain("delete", K::plural(&()))(error)),
        }
    }
}

/// Whether we keep the object.
pub fn is_held(object: &impl Resource) -> bool {
    object.finalizers().iter().any(|name| name == FINALIZER)
}

fn names(object: &impl Resource) -> (String, String) {
    (object.name_any(), object.uid().unwrap_or_default())
}

fn seen<'a>(object: &'a impl Resource, name: &'a str, uid: &'a str) -> Seen<'a> {
    Seen {
        name,
        uid,
        finalizers: object.finalizers(),
    }
}
