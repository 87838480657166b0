//! A content for a request, from its class, its claims and their volumes. Everything that can be wrong is found
//! before anything is written.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, SecretReference};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use kube_core::Selector;
use serde_json::{Value, json};
use stowage_api::snapshot::names::{CLAIM_AS_SOURCE, MANAGED_BY};
use stowage_kubernetes::json_patch::ObjectPatch;
use stowage_kubernetes::metadata::add_finalizer;
use stowage_kubernetes::object_error::explain;
use stowage_kubernetes::secret_template::SecretTemplate;

use crate::content::Content;
use crate::failure::{Failure, SecretNameError};
use crate::others::Class;
use crate::request::{Kind, Request, Source};
use crate::worker::{Worker, content_name};
use crate::write::{CLAIMS, VOLUMES};

/// A volume to take a snapshot of.
struct Volume {
    claim: PersistentVolumeClaim,
    object: PersistentVolume,
    driver: String,
    handle: String,
}

impl Worker {
    /// Makes the content of a request. Called twice: it is there already.
    pub(crate) async fn make(&self, request: &Request) -> Result<(Request, Content), Failure> {
        let volumes = self.volumes(request).await?;
        let class = self.class_for(request, &volumes)?;
        let secret = secret(request, &class)?;
        let mut request = request.clone();
        if request.class.is_none() {
            let field = match self.kind {
                Kind::Single => "volumeSnapshotClassName",
                Kind::Group => "volumeGroupSnapshotClassName",
            };
            let patch = ObjectPatch::new().set(["spec", field], json!(class.name));
            request = self.writer.change(&request, patch).await?;
        }
        if self.kind == Kind::Single {
            for volume in &volumes {
                self.protect_claim(&volume.claim).await?;
            }
        }
        let policy = class.policy;
        let goes_too = policy == stowage_api::snapshot::DeletionPolicy::Delete;
        if goes_too {
            let gaps = self.cluster.requests.of(self.kind).gaps();
            self.births.begin(&request, gaps);
        }
        let request = self.keep(request, goes_too).await?;
        let object = self.object(&request, &class, &volumes, secret.as_ref());
        let content = self.writer.create_content(self.kind, &object).await?;
        let (reason, word) = match self.kind {
            Kind::Single => ("CreatingSnapshot", "snapshot"),
            Kind::Group => ("CreatingGroupSnapshot", "group snapshot"),
        };
        let key = request.key();
        let text = format!("Waiting for a {word} {key} to be created by the CSI driver.");
        self.events
            .normal(request.reference(self.scope), reason, text);
        Ok((request, content))
    }

    async fn volumes(&self, request: &Request) -> Result<Vec<Volume>, Failure> {
        let client = self.writer.client.clone();
        let api = Api::<PersistentVolumeClaim>::namespaced(client, &request.namespace);
        let claims = match &request.source {
            Source::Claim(name) => {
                let claim = api.get_opt(name).await.map_err(explain("get", CLAIMS))?;
                vec![claim.ok_or_else(|| unusable("claim", name, "does not exist"))?]
            }
            Source::Claims(selector) => {
                let selector = Selector::try_from(selector.as_ref().clone());
                let selector = selector.map_err(|error| Failure::Selector(error.to_string()))?;
                let params = ListParams::default().labels_from(&selector);
                let found = api.list(&params).await.map_err(explain("list", CLAIMS))?;
                found.items
            }
            Source::Content(_) | Source::Unclear => return Err(Failure::Source),
        };
        if claims.is_empty() {
            return Err(Failure::NoClaims(request.namespace.clone()));
        }
        let mut volumes = Vec::new();
        for claim in claims {
            volumes.push(self.volume(claim).await?);
        }
        Ok(volumes)
    }

    async fn volume(&self, claim: PersistentVolumeClaim) -> Result<Volume, Failure> {
        let name = claim.name_any();
        let wrong = |wrong: &str| unusable("claim", &name, wrong);
        let phase = claim
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        let bound = claim
            .spec
            .as_ref()
            .and_then(|spec| spec.volume_name.clone());
        let bound = bound.filter(|_| phase == Some("Bound"));
        let volume = bound.ok_or_else(|| wrong("is not bound to a volume yet"))?;
        let protected = claim
            .finalizers()
            .iter()
            .any(|known| known == CLAIM_AS_SOURCE);
        if claim.metadata.deletion_timestamp.is_some() && !protected {
            return Err(wrong("is being deleted"));
        }
        let api = Api::<PersistentVolume>::all(self.writer.client.clone());
        let found = api
            .get_opt(&volume)
            .await
            .map_err(explain("get", VOLUMES))?;
        let object = found.ok_or_else(|| unusable("volume", &volume, "does not exist"))?;
        let spec = object.spec.clone().unwrap_or_default();
        if spec.claim_ref.and_then(|claim| claim.uid) != claim.metadata.uid {
            return Err(unusable("volume", &volume, "is bound to another claim"));
        }
        let csi = spec.csi;
        let csi = csi.ok_or_else(|| unusable("volume", &volume, "is not of a CSI driver"))?;
        Ok(Volume {
            claim,
            object,
            driver: csi.driver,
            handle: csi.volume_handle,
        })
    }

    fn class_for(&self, request: &Request, volumes: &[Volume]) -> Result<Class, Failure> {
        let classes = self.cluster.classes.of(self.kind).store();
        let driver = volumes.first().map_or("", |volume| volume.driver.as_str());
        let class = match &request.class {
            Some(name) => {
                let class = classes.get(name);
                let class = class.ok_or_else(|| Failure::NoClass(name.clone()))?;
                Class::clone(&class)
            }
            None => {
                let mut defaults = classes.all();
                defaults.retain(|class| class.default && class.driver == driver);
                let driver = driver.to_owned();
                match defaults.as_slice() {
                    [class] => Class::clone(class),
                    [] => {
                        let kind = match self.kind {
                            Kind::Single => "snapshot",
                            Kind::Group => "group snapshot",
                        };
                        let mark = self.kind.names().default_class;
                        return Err(Failure::NoDefault { kind, driver, mark });
                    }
                    several => {
                        let names = several.iter().map(|class| format!("`{}`", class.name));
                        let mut classes: Vec<_> = names.collect();
                        classes.sort();
                        return Err(Failure::Defaults { driver, classes });
                    }
                }
            }
        };
        match volumes.iter().find(|volume| volume.driver != class.driver) {
            Some(other) => Err(Failure::OtherDriver {
                class: class.name,
                of: class.driver,
                volume: other.object.name_any(),
                driver: other.driver.clone(),
            }),
            None => Ok(class),
        }
    }

    /// Keeps a claim until the snapshot is taken. Called twice: the finalizer is there once.
    async fn protect_claim(&self, claim: &PersistentVolumeClaim) -> Result<(), Failure> {
        let mut claim = claim.clone();
        if !add_finalizer(&mut claim.metadata, CLAIM_AS_SOURCE) {
            return Ok(());
        }
        let namespace = claim.namespace().unwrap_or_default();
        let api = Api::namespaced(self.writer.client.clone(), &namespace);
        // An update and no patch: upstream's role allows no more.
        let written = api
            .replace(&claim.name_any(), &PostParams::default(), &claim)
            .await;
        written.map_err(explain("update", CLAIMS))?;
        Ok(())
    }

    fn object(
        &self,
        request: &Request,
        class: &Class,
        volumes: &[Volume],
        secret: Option<&SecretReference>,
    ) -> Value {
        let names = self.kind.names();
        let handles: Vec<_> = volumes.iter().map(|volume| &volume.handle).collect();
        let mut object = match self.kind {
            Kind::Single => json!({
                "kind": "VolumeSnapshotContent",
                "spec": {
                    "volumeSnapshotRef": request.reference(self.scope),
                    "volumeSnapshotClassName": class.name,
                    "source": { "volumeHandle": handles[0] },
                    "sourceVolumeMode": mode(&volumes[0].object),
                },
            }),
            Kind::Group => json!({
                "kind": "VolumeGroupSnapshotContent",
                "spec": {
                    "volumeGroupSnapshotRef": request.reference(self.scope),
                    "volumeGroupSnapshotClassName": class.name,
                    "source": { "volumeHandles": handles },
                },
            }),
        };
        object["apiVersion"] = json!(self.scope.version(self.kind));
        object["spec"]["deletionPolicy"] = json!(class.policy);
        object["spec"]["driver"] = json!(class.driver);
        object["metadata"] = json!({
            "name": content_name(request),
            "finalizers": [names.finalizer],
        });
        if let Some(secret) = secret {
            object["metadata"]["annotations"] = json!({
                names.secret_name: secret.name,
                names.secret_namespace: secret.namespace,
            });
        }
        if let Some(node) = self.node_of(volumes) {
            object["metadata"]["labels"] = json!({ MANAGED_BY: node });
        }
        object
    }

    /// With a sidecar on every node: the node that all volumes can be reached from.
    fn node_of(&self, volumes: &[Volume]) -> Option<String> {
        if !self.scope.nodes {
            return None;
        }
        let reaches_all = |node: &crate::others::NodeLabels| {
            volumes.iter().all(|volume| {
                let spec = volume.object.spec.as_ref();
                let affinity = spec.and_then(|spec| spec.node_affinity.as_ref());
                affinity.is_some_and(|affinity| node.reaches(affinity))
            })
        };
        let nodes = self.cluster.nodes.store().all();
        let node = nodes.iter().find(|node| reaches_all(node));
        node.map(|node| node.name.clone())
    }
}

/// Of the volume; a snapshot must be restored in the same mode.
pub(crate) fn mode(volume: &PersistentVolume) -> Option<String> {
    volume
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_mode.clone())
}

fn unusable(what: &'static str, name: &str, wrong: &str) -> Failure {
    Failure::Unusable {
        what,
        name: name.to_owned(),
        wrong: wrong.to_owned(),
    }
}

/// The secret that makes and deletes the snapshot. The namespace of the secret must not follow the user's choice of a
/// name.
pub(crate) fn secret(request: &Request, class: &Class) -> Result<Option<SecretReference>, Failure> {
    let (whose, object) = match request.kind {
        Kind::Single => ("snapshotter-", "volumesnapshot"),
        Kind::Group => ("group-snapshotter-", "volumegroupsnapshot"),
    };
    let content = content_name(request);
    let filled = SecretTemplate::of(&class.parameters, whose)
        .map_err(SecretNameError::from)
        .and_then(|template| {
            let Some(template) = template else {
                return Ok(None);
            };
            let in_namespace = |token: &str| {
                let (kind, field) = token.split_once('.')?;
                match (kind.strip_prefix(object)?, field) {
                    ("content", "name") => Some(Ok(content.as_str())),
                    ("", "namespace") => Some(Ok(request.namespace.as_str())),
                    _ => None,
                }
            };
            let in_name = |token: &str| {
                let own = (token == format!("{object}.name")).then_some(Ok(request.name.as_str()));
                own.or_else(|| in_namespace(token))
            };
            Ok(Some(template.resolve(in_namespace, in_name)?))
        });
    filled.map_err(|error| {
        let class = class.name.clone();
        Failure::Secret { class, error }
    })
}
