//! Text to objects: hooks apart, in Helm's order.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::render::Rendered;
use crate::yaml;

/// Kinds in the order in which Helm installs them; others come after, by name. Deleted in the opposite order.
const ORDER: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "Job",
    "CronJob",
    "Ingress",
    "APIService",
];

/// Moments at which Helm runs hooks.
const EVENTS: [&str; 9] = [
    "pre-install",
    "post-install",
    "pre-delete",
    "post-delete",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "test",
];

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object(pub Value);

impl Object {
    /// Its kind.
    pub fn kind(&self) -> &str {
        self.0["kind"].as_str().unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Its namespace, if it says one.
    pub fn namespace(&self) -> Option<&str> {
        self.0["metadata"]["namespace"].as_str()
    }

    /// Kind and name, as kubectl writes them, with the group: kinds of one name exist in several.
    pub fn title(&self) -> String {
        let version = self.0["apiVersion"].as_str().unwrap_or_default();
        let kind = self.kind().to_lowercase();
        match version.split_once('/') {
            Some((group, _)) => format!("{kind}.{group}/{}", self.name()),
            None => format!("{kind}/{}", self.name()),
        }
    }

    /// Whether both are the same object.
    pub fn is(&self, other: &Self) -> bool {
        self.title() == other.title() && self.namespace() == other.namespace()
    }

    /// An annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.0["metadata"]["annotations"][name].as_str()
    }

    /// Whether Helm leaves it when the release goes.
    pub fn is_kept(&self) -> bool {
        self.annotation("helm.sh/resource-policy") == Some("keep")
    }
}

/// An object that is only there while the release changes.
#[derive(Clone, Debug)]
pub struct Hook {
    /// The object.
    pub object: Object,
    /// When.
    pub events: Vec<String>,
    /// Lower ones first.
    pub weight: i64,
    /// When it is deleted again.
    pub deleted: Vec<String>,
}

/// Everything that a chart comes to.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// What stays, in the order of installation.
    pub objects: Vec<Object>,
    /// What comes and goes.
    pub hooks: Vec<Hook>,
}

impl Manifest {
    /// Reads what templates came to.
    pub fn of(rendered: &Rendered) -> Result<Self> {
        let mut objects = Vec::new();
        for (name, text) in &rendered.texts {
            let documents = yaml::read_all(text).map_err(|reason| Error::Template {
                name: name.clone(),
                reason: format!("{reason}\n{text}"),
            })?;
            objects.extend(documents);
        }
        Self::of_objects(objects)
    }

    /// Sorts objects.
    pub fn of_objects(objects: Vec<Value>) -> Result<Self> {
        let mut manifest = Self::default();
        for object in objects {
            let object = Object(object);
            if object.kind().is_empty() || object.name().is_empty() {
                return Err(Error::Refused(format!(
                    "an object has no kind or no name: {}",
                    object.0
                )));
            }
            match hook(&object).map_err(Error::Refused)? {
                Some(hook) => manifest.hooks.push(hook),
                None => manifest.objects.push(object),
            }
        }
        manifest.objects.sort_by_key(rank);
        manifest
            .hooks
            .sort_by_key(|it| (it.weight, it.object.name().to_owned()));
        Ok(manifest)
    }

    /// Everything, hooks too.
    pub fn all(&self) -> Vec<&Value> {
        let hooks = self.hooks.iter().map(|hook| &hook.object.0);
        self.objects.iter().map(|it| &it.0).chain(hooks).collect()
    }

    /// The hooks of a moment, in their order.
    pub fn hooks_at(&self, event: &str) -> impl Iterator<Item = &Hook> {
        let event = event.to_owned();
        self.hooks
            .iter()
            .filter(move |it| it.events.contains(&event))
    }

    /// The same object of this one, if there is one.
    pub fn same(&self, other: &Object) -> Option<&Object> {
        self.objects.iter().find(|it| it.is(other))
    }
}

fn rank(object: &Object) -> (usize, String, String) {
    let at = ORDER.iter().position(|kind| *kind == object.kind());
    (
        at.unwrap_or(ORDER.len()),
        object.kind().to_owned(),
        object.name().to_owned(),
    )
}

fn hook(object: &Object) -> std::result::Result<Option<Hook>, String> {
    let words = |annotation: &str| -> Vec<String> {
        let text = object.annotation(annotation).unwrap_or_default();
        let words = text.split(',').map(str::trim);
        words
            .filter(|it| !it.is_empty())
            .map(ToOwned::to_owned)
            .collect()
    };
    let events = words("helm.sh/hook");
    if events.is_empty() {
        return Ok(None);
    }
    if let Some(unknown) = events.iter().find(|it| !EVENTS.contains(&it.as_str())) {
        return Err(format!("Helm has no hook `{unknown}`"));
    }
    let weight = object.annotation("helm.sh/hook-weight").unwrap_or("0");
    let weight = weight
        .parse()
        .map_err(|_| format!("the weight `{weight}` is not a number"))?;
    let mut deleted = words("helm.sh/hook-delete-policy");
    if deleted.is_empty() {
        deleted.push("before-hook-creation".to_owned());
    }
    Ok(Some(Hook {
        object: object.clone(),
        events,
        weight,
        deleted,
    }))
}
