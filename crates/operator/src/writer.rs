//! The only writer of children.
//!
//! An object has drifted when it is not what the server RETURNED after our last write: not what we sent, because
//! servers fill in defaults and drop what they do not know. The fingerprint of that answer is kept in memory; after a
//! restart a dry-run tells. Where it drifted, everything but foreign labels and annotations is replaced: an added
//! container, variable or toleration disappears. Where it did not, nothing is sent.

mod error;
mod fingerprint;
mod ownership;
mod refusal;
mod reverts;
mod skipped;

use std::collections::HashMap;

use futures::future;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::Value;
use stowage_api::driver_deployment::{ADOPT_ANNOTATION, OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL};
use stowage_kubernetes::answer::{Answer, is_gone_or_replaced};
use stowage_kubernetes::discovery::ServerError;
use stowage_kubernetes::json_patch::{ObjectPatch, PARAMS};

use crate::driver::{Kind, Object, Owner};
use crate::served::{Served, Versions};
pub use error::WriteError;
use fingerprint::{Fingerprint, body};
use ownership::merged;
pub use ownership::{Key, Objects, Recorded, is_ours};
pub use refusal::Difference;
use reverts::Reverts;
pub use skipped::Skipped;

/// Who writes, in `managedFields`.
pub const FIELD_MANAGER: &str = "stowage.dev";

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing was sent.
    None,
    /// It was not there.
    Created,
    /// What is wanted changed.
    Updated,
    /// Somebody else had changed it.
    Reverted,
    /// It could only be replaced by deleting it first.
    Recreated,
    /// Somebody handed it over.
    Adopted,
}

/// Writes children, and remembers what the server made of them.
pub struct Writer {
    client: Client,
    served: Served,
    has_security_constraints: bool,
    memory: Mutex<HashMap<Key, Fingerprint>>,
    reverts: Reverts,
}

impl Writer {
    /// Asks the server which versions it has. Of kinds that may come later `served` tells.
    pub async fn connect(client: Client, served: &Served) -> Result<Self, ServerError> {
        let has_security_constraints = served.discover(&client).await?;
        Ok(Self {
            client,
            served: served.clone(),
            has_security_constraints,
            memory: Mutex::default(),
            reverts: Reverts::default(),
        })
    }

    /// Everything whose labels say that it is the instance's. Looks through all objects of every kind: for when it is
    /// not known what there is.
    pub async fn owned(&self, owner: &Owner) -> Result<Objects, WriteError> {
        let Owner {
            namespace, name, ..
        } = owner;
        let selector = ListParams::default().labels(&format!(
            "{OWNER_NAMESPACE_LABEL}={namespace},{OWNER_NAME_LABEL}={name}"
        ));
        let versions = self.versions();
        let kinds = Kind::ALL.into_iter();
        let kinds = kinds.filter(|kind| kind.version(versions).is_some());
        let lists = kinds.map(|kind| {
            let resource = kind.resource(versions);
            let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
            let selector = &selector;
            async move {
                match api.list(selector).await {
                    Ok(list) => Ok((kind, list.items)),
                    // It was there a moment ago.
                    Err(error)
                        if !kind.is_everywhere() && Answer::of(&error) == Answer::NotServed =>
                    {
                        Ok((kind, Vec::new()))
                    }
                    Err(error) => Err(WriteError::api(&Key::all_of(kind))(error)),
                }
            }
        });
        let lists = future::try_join_all(lists).await?;
        let objects = lists.into_iter().flat_map(|(kind, objects)| {
            objects
                .into_iter()
                .map(move |object| (Key::of(kind, &object), object))
        });
        // An instance that was deleted and made again under its name is another one.
        let nothing = Recorded::default();
        let ours = objects.filter(|(key, object)| is_ours(key.kind, object, owner, &nothing));
        Ok(ours.collect())
    }

    /// Those of these objects that are there.
    pub async fn read(&self, keys: impl IntoIterator<Item = Key>) -> Result<Objects, WriteError> {
        let found = keys.into_iter().map(|key| async {
            let object = self.get(&key).await?;
            Ok::<_, WriteError>(object.map(|object| (key, object)))
        });
        let found = future::try_join_all(found).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Asks the server whether it would take this object, without making it: whether that would replace the pods of a workload
    /// that is there.
    ///
    /// Pods are written by people; a mistake in one must not leave half a driver behind.
    pub async fn dry_run(
        &self,
        wanted: &Object,
        live: Option<&DynamicObject>,
    ) -> Result<bool, WriteError> {
        let key = Key::of_wanted(wanted);
        let known = self.memory.lock().get(&key).copied();
        if live.is_some() && known.is_some_and(|known| known.is_for(wanted)) {
            return Ok(false);
        }
        let api = self.api(&key);
        let dry_run = dry_run();
        let answer = match live {
            Some(live) => {
                api.replace(&key.name, &dry_run, &self.document(wanted, Some(live)))
                    .await
            }
            None => api.create(&dry_run, &self.document(wanted, None)).await,
        };
        match answer {
            // Whose it is, is found out when it is written.
            Err(error) if Answer::of(&error) == Answer::Conflict => Ok(false),
            Err(error) => Err(WriteError::api(&key)(error)),
            Ok(answer) => Ok(live.is_some_and(|live| pods(live) != pods(&answer))),
        }
    }

    /// Makes the object as it is wanted. Called twice: the second time sends nothing.
    pub async fn write(
        &self,
        wanted: &Object,
        live: Option<&DynamicObject>,
        recorded: &Recorded,
    ) -> Result<(DynamicObject, Change), WriteError> {
        let key = Key::of_wanted(wanted);
        let Some(live) = live else {
            return self.create(&key, wanted, recorded).await;
        };
        self.update(&key, wanted, live).await
    }

    async fn create(
        &self,
        key: &Key,
        wanted: &Object,
        recorded: &Recorded,
    ) -> Result<(DynamicObject, Change), WriteError> {
        let api = self.api(key);
        match api.create(&post(), &self.document(wanted, None)).await {
            Ok(stored) => {
                self.remember(key, wanted, &stored);
                Ok((stored, Change::Created))
            }
            Err(error) if Answer::of(&error) == Answer::Conflict => {
                let Some(there) = self.get(key).await? else {
                    return Err(WriteError::api(key)(error));
                };
                if !is_ours(key.kind, &there, &Owner::of_wanted(wanted), recorded) {
                    return Err(WriteError::Collision(key.clone()));
                }
                // We died after making it, or somebody took our labels away.
                self.update(key, wanted, &there).await
            }
            Err(error) => Err(WriteError::api(key)(error)),
        }
    }

    async fn update(
        &self,
        key: &Key,
        wanted: &Object,
        live: &DynamicObject,
    ) -> Result<(DynamicObject, Change), WriteError> {
        let now = Fingerprint::of(wanted, live);
        let known = self.memory.lock().get(key).copied();
        if known == Some(now) {
            return Ok((live.clone(), Change::None));
        }
        let change = match known {
            _ if live.annotations().contains_key(ADOPT_ANNOTATION) => Change::Adopted,
            Some(known) if known.wanted == now.wanted => {
                self.reverts.admit(key, live)?;
                Change::Reverted
            }
            Some(_) => Change::Updated,
            None => {
                let document = self.document(wanted, Some(live));
                let api = self.api(key);
                match api.replace(&key.name, &dry_run(), &document).await {
                    Ok(answer) if Fingerprint::of(wanted, &answer) == now => {
                        self.memory.lock().insert(key.clone(), now);
                        return Ok((live.clone(), Change::None));
                    }
                    Ok(_) => Change::Updated,
                    Err(error) => return Err(self.explain(key, wanted, live, error).await),
                }
            }
        };
        let document = self.document(wanted, Some(live));
        match self.api(key).replace(&key.name, &post(), &document).await {
            Ok(stored) => {
                self.remember(key, wanted, &stored);
                Ok((stored, change))
            }
            Err(error) => Err(self.explain(key, wanted, live, error).await),
        }
    }

    /// Marks an object with an annotation that is `true`. Called twice: the second time sends nothing.
    pub async fn annotate(
        &self,
        key: &Key,
        live: &DynamicObject,
        annotation: &str,
    ) -> Result<(), WriteError> {
        if live.annotations().contains_key(annotation) {
            return Ok(());
        }
        let patch = ObjectPatch::of(&live.uid().unwrap_or_default());
        let is_annotated = !live.annotations().is_empty();
        let patch = patch.set_annotation(is_annotated, annotation, "true");
        let patch = patch.into_patch();
        match self.api(key).patch(&key.name, &PARAMS, &patch).await {
            Err(error) if is_gone_or_replaced(&error) => Ok(()),
            marked => marked.map(|_| ()).map_err(WriteError::api(key)),
        }
    }

    /// Deletes an object that carries our labels. Called twice: what is gone stays gone.
    pub async fn delete(&self, key: &Key, live: &DynamicObject) -> Result<(), WriteError> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: live.uid(),
                resource_version: None,
            }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        self.memory.lock().remove(key);
        match self.api(key).delete(&key.name, &parameters).await {
            Ok(_) => Ok(()),
            // Gone, or already another object of the same name.
            Err(error) if is_gone_or_replaced(&error) => Ok(()),
            Err(error) => Err(WriteError::api(key)(error)),
        }
    }

    /// Forgets an object that somebody deleted for good.
    pub fn forget(&self, key: &Key) {
        self.memory.lock().remove(key);
    }

    async fn get(&self, key: &Key) -> Result<Option<DynamicObject>, WriteError> {
        let found = self.api(key).get_opt(&key.name).await;
        found.map_err(WriteError::api(key))
    }

    /// Whether the server is OpenShift's, where privileged pods need a right of their own.
    pub fn has_security_constraints(&self) -> bool {
        self.has_security_constraints
    }

    /// Which versions of kinds the server has.
    pub fn versions(&self) -> Versions {
        self.served.versions()
    }

    fn remember(&self, key: &Key, wanted: &Object, stored: &DynamicObject) {
        let fingerprint = Fingerprint::of(wanted, stored);
        self.memory.lock().insert(key.clone(), fingerprint);
    }

    fn document(&self, wanted: &Object, live: Option<&DynamicObject>) -> DynamicObject {
        merged(wanted, live, &wanted.kind.resource(self.versions()))
    }

    fn api(&self, key: &Key) -> Api<DynamicObject> {
        let resource = key.kind.resource(self.versions());
        match &key.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

fn post() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// The pods of a workload, but for restarts that somebody asked for.
fn pods(workload: &DynamicObject) -> Option<Value> {
    let body = body(Kind::DaemonSet, workload);
    body.get("spec").map(|spec| spec["template"].clone())
}

/// The same, without storing anything.
fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..post()
    }
}
