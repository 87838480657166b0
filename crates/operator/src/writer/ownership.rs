//! Whose an object is, and how what we want and what others added become one object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kube::ResourceExt;
use kube::api::{DynamicObject, TypeMeta};
use kube::core::ApiResource;
use serde_json::{Value, json};
use stowage_api::driver_deployment::{
    ADOPT_ANNOTATION, Child, OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL, OWNER_UID_LABEL,
};

use crate::driver::{Kind, Object, Owner};

/// Annotation with the keys of labels and annotations that we wrote, so that one which is no longer wanted can be told
/// from one that somebody else added.
const OWNED_KEYS: &str = "stowage.dev/owned-keys";
/// Annotation with the pull secrets that we wrote into an account, for the same reason.
const OWNED_PULL_SECRETS: &str = "stowage.dev/owned-pull-secrets";

/// Annotation by which `kubectl rollout restart` has pods replaced.
pub(super) const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of an object that is there.
    pub fn of(kind: Kind, object: &DynamicObject) -> Self {
        Self {
            kind,
            namespace: object.namespace(),
            name: object.name_any(),
        }
    }

    /// The key of an object that is wanted.
    pub fn of_wanted(object: &Object) -> Self {
        Self {
            kind: object.kind,
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }

    /// The key of an entry of `status.children`; `None` for kinds that this version does not make.
    pub fn of_child(child: &Child) -> Option<Self> {
        let kind = Kind::named(&child.resource)?;
        Some(Self {
            kind,
            namespace: kind.is_namespaced().then(|| child.namespace.clone()),
            name: child.name.clone(),
        })
    }

    /// All objects of a kind, for messages.
    pub(super) fn all_of(kind: Kind) -> Self {
        Self {
            kind,
            namespace: None,
            name: "*".to_owned(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind.name())?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// Objects that are there.
pub type Objects = BTreeMap<Key, DynamicObject>;

/// Uids of the objects that an instance's status lists as its own.
#[derive(Clone, Debug, Default)]
pub struct Recorded(BTreeSet<String>);

impl Recorded {
    /// Those of a status.
    pub fn of(children: &[Child]) -> Self {
        Self(
            children
                .iter()
                .filter_map(|child| child.uid.clone())
                .collect(),
        )
    }

    /// Whether an object is listed.
    pub fn contains(&self, uid: Option<&str>) -> bool {
        uid.is_some_and(|uid| self.0.contains(uid))
    }
}

/// Whether an object belongs to an instance: by the label with its uid, because the status lists it, because the operator of
/// 2018 made it for this instance, or because somebody hands it over.
pub fn is_ours(kind: Kind, object: &DynamicObject, owner: &Owner, recorded: &Recorded) -> bool {
    let by_label = match object.labels().get(OWNER_UID_LABEL) {
        Some(uid) => *uid == owner.uid,
        None => is_from_2018(kind, object, owner),
    };
    by_label || recorded.contains(object.metadata.uid.as_deref()) || is_handed_over(object, owner)
}

/// Whether somebody wants an instance to take over an object: one that an unmanaged instance has left, that was restored from a
/// backup, or that another tool has made.
fn is_handed_over(object: &DynamicObject, owner: &Owner) -> bool {
    let to = object.annotations().get(ADOPT_ANNOTATION);
    to.is_some_and(|to| *to == format!("{}/{}", owner.namespace, owner.name))
}

/// The operator of 2018 put an ownerReference on what lives in a namespace. Cluster-scoped objects cannot have one:
/// there only the labels say whose they are, and nobody else writes those labels without a uid.
fn is_from_2018(kind: Kind, object: &DynamicObject, owner: &Owner) -> bool {
    let label = |key: &str| object.labels().get(key).map(String::as_str);
    let is_labelled = label(OWNER_NAMESPACE_LABEL) == Some(&owner.namespace)
        && label(OWNER_NAME_LABEL) == Some(&owner.name);
    let has_reference = refers_to(object, &owner.uid);
    match kind {
        Kind::StorageClass | Kind::ClusterRoleBinding => is_labelled,
        _ => has_reference,
    }
}

/// Whether an object has an ownerReference to the instance with this uid.
pub(super) fn refers_to(object: &DynamicObject, uid: &str) -> bool {
    object.owner_references().iter().any(|it| it.uid == uid)
}

impl Owner {
    /// The instance that a wanted object is for.
    pub(super) fn of_wanted(wanted: &Object) -> Self {
        let label = |key: &str| wanted.labels.get(key).cloned().unwrap_or_default();
        Self {
            namespace: label(OWNER_NAMESPACE_LABEL),
            name: label(OWNER_NAME_LABEL),
            uid: label(OWNER_UID_LABEL),
        }
    }
}

/// The document to send: what is wanted, with the labels and annotations that others added.
pub(super) fn merged(
    wanted: &Object,
    live: Option<&DynamicObject>,
    resource: &ApiResource,
) -> DynamicObject {
    let mut object = DynamicObject::new(&wanted.name, resource);
    object.types = Some(TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    });
    object.metadata.namespace.clone_from(&wanted.namespace);
    object.data = Value::Object(wanted.body.clone());
    if let Some(live) = live {
        object.metadata = live.metadata.clone();
        object.metadata.managed_fields = None;
        // A foreground deletion of the instance would take the object away while the finalizer still needs it.
        let uid = Owner::of_wanted(wanted).uid;
        object.owner_references_mut().retain(|it| it.uid != uid);
        for key in owned_keys(live) {
            // The mark of a default class is an administrator's as soon as the template leaves it open.
            if !key.ends_with("/is-default-class") {
                object.labels_mut().remove(&key);
                object.annotations_mut().remove(&key);
            }
        }
        match wanted.kind {
            Kind::ServiceAccount => object.data = account(wanted, live),
            Kind::DaemonSet | Kind::Deployment => keep_restart(&mut object.data, live),
            _ => {}
        }
    }
    let extra = extra_keys(wanted);
    object.labels_mut().extend(wanted.labels.clone());
    object.annotations_mut().extend(wanted.annotations.clone());
    object.annotations_mut().remove(OWNED_KEYS);
    object.annotations_mut().remove(OWNED_PULL_SECRETS);
    object.annotations_mut().remove(ADOPT_ANNOTATION);
    if !extra.is_empty() {
        object
            .annotations_mut()
            .insert(OWNED_KEYS.to_owned(), extra.join(","));
    }
    let secrets = names(&pull_secrets(&Value::Object(wanted.body.clone())));
    if wanted.kind == Kind::ServiceAccount && !secrets.is_empty() {
        object
            .annotations_mut()
            .insert(OWNED_PULL_SECRETS.to_owned(), secrets.join(","));
    }
    object
}

/// Pods that somebody had replaced are not replaced again by the next change of something else.
fn keep_restart(data: &mut Value, live: &DynamicObject) {
    let there = &live.data["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT];
    let template = &mut data["spec"]["template"]["metadata"];
    if !there.is_null() && template["annotations"][RESTARTED_AT].is_null() {
        template["annotations"][RESTARTED_AT] = there.clone();
    }
}

/// Keys that come from a template and may be gone from it tomorrow.
fn extra_keys(wanted: &Object) -> Vec<String> {
    let always = [OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL, OWNER_UID_LABEL];
    let labels = wanted
        .labels
        .keys()
        .filter(|key| !always.contains(&key.as_str()));
    labels.chain(wanted.annotations.keys()).cloned().collect()
}

/// The keys that we wrote last time.
pub(super) fn owned_keys(live: &DynamicObject) -> Vec<String> {
    let listed = live.annotations().get(OWNED_KEYS);
    let listed = listed.into_iter().flat_map(|keys| keys.split(','));
    listed.map(str::to_owned).collect()
}

/// An account as it is, with the pull secrets that we want and without those that we wanted once.
fn account(wanted: &Object, live: &DynamicObject) -> Value {
    let mut data = live.data.clone();
    let ours = pull_secrets(&Value::Object(wanted.body.clone()));
    let once = owned_pull_secrets(live);
    let mut secrets = pull_secrets(&data);
    secrets.retain(|it| {
        !names(std::slice::from_ref(it))
            .iter()
            .any(|it| once.contains(it))
    });
    for secret in ours {
        if !secrets.contains(&secret) {
            secrets.push(secret);
        }
    }
    data["imagePullSecrets"] = json!(secrets);
    data
}

/// The pull secrets that we wrote last time.
pub(super) fn owned_pull_secrets(live: &DynamicObject) -> Vec<String> {
    let listed = live.annotations().get(OWNED_PULL_SECRETS);
    let listed = listed.into_iter().flat_map(|names| names.split(','));
    listed.map(str::to_owned).collect()
}

fn names(secrets: &[Value]) -> Vec<String> {
    let names = secrets.iter().filter_map(|it| it["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Whether an account has all of our pull secrets.
pub(super) fn has_pull_secrets(wanted: &Object, live: &DynamicObject) -> bool {
    let there = pull_secrets(&live.data);
    let ours = pull_secrets(&Value::Object(wanted.body.clone()));
    ours.iter().all(|secret| there.contains(secret))
}

fn pull_secrets(account: &Value) -> Vec<Value> {
    account["imagePullSecrets"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}
