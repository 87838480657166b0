//! From a claim to an intent: everything that can be wrong with a claim or its class is found here, before anything
//! is sent to the driver. Planning reads; it writes nothing, and a plan that is dropped leaves nothing behind.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use stowage_api::quantity::{self, QuantityError};
use stowage_kubernetes::secret_template::TemplateError;
use stowage_kubernetes::secrets::{self, SecretError};

use super::parameters::{ParameterError, Parameters};
use super::source::{self, Found, SourceError};
use super::templates::PlaceholderValues;
use super::topology::{Accessibility, TopologyError, TopologyRequest};
use crate::access::{self, AccessError};
use crate::args::Settings;
use crate::attributes_class;
use crate::cluster::claim::Claim;
use crate::cluster::class::Class;
use crate::cluster::volume::ClaimKey;
use crate::intent::{AttributesClass, ClassFacts, FrozenTopology, Intent};
use crate::journal::JournalError;
use crate::role::Context;

/// Why a claim cannot be provisioned now. Nothing was sent to the driver.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(
        "storage class `{0}` does not exist or is for another driver: create it, or use another class"
    )]
    NoClass(String),
    #[error("the claim does not name a storage class: set spec.storageClassName")]
    ClassNotNamed,
    #[error(
        "claims with a selector are bound to existing volumes and cannot be provisioned: remove spec.selector"
    )]
    Selector,
    #[error("the requested size cannot be used: {0}")]
    Size(#[from] QuantityError),
    #[error("the claim does not request any storage: set spec.resources.requests.storage")]
    Nothing,
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("storage class `{class}`: {source}")]
    Parameters {
        class: String,
        source: ParameterError,
    },
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error("VolumeAttributesClass `{0}` {1}")]
    AttributesClass(String, String),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(
        "volume `{0}` exists and belongs to another claim: delete it, or set a longer --volume-name-uuid-length"
    )]
    NameTaken(String),
    #[error("the claim cannot be read or written")]
    Unreadable(#[source] Box<kube::Error>),
    #[error("what the claim copies cannot be protected while it is copied")]
    Unprotected(#[source] Box<kube::Error>),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(
        "the claim is for an in-tree plugin whose volumes this driver took over: they are not translated here; use a storage class whose provisioner is the driver itself"
    )]
    InTree,
    #[error(
        "the driver is being uninstalled and makes no new volumes: use another storage class, or deploy the driver again"
    )]
    Uninstalling,
    /// With a controller on every node: another one may be better placed.
    #[error("another node may take the claim within {}s", .0.as_secs())]
    NotYet(Duration),
    /// With a controller on every node: this is not told on the claim, which another one may take.
    #[error("there is no room on this node: {asked} bytes are requested, {available} are free")]
    NoRoom { asked: i64, available: i64 },
}

/// What planning looks things up in.
#[derive(Clone)]
pub(crate) struct Planner {
    pub(crate) context: Context,
    pub(crate) accessibility: Accessibility,
    /// Claims without a node for which this one has let others go first.
    pub(crate) deferred: Arc<Mutex<HashSet<String>>>,
}

/// What is to be done for a claim.
pub(crate) enum Step {
    /// Nothing: its volume is there, or a pod must come first.
    Rest,
    /// Any node may make its volume: this one asks for it.
    TakeNode(String),
    Make(Box<Plan>),
}

/// A volume to be made.
pub(crate) struct Plan {
    pub(crate) intent: Intent,
    /// Read before the intent is written down: an intent that was never sent must not need a secret that nobody ever
    /// made.
    pub(crate) secrets: SecretContent,
    /// The uid of what it copies, which must be kept until the copy is made.
    pub(crate) original: Option<String>,
}

/// The content of a secret.
pub(crate) type SecretContent = BTreeMap<String, String>;

impl Planner {
    /// Decides what to do for a claim, and fixes everything about its volume.
    pub(crate) async fn plan(&self, claim: &Claim) -> Result<Step, Refusal> {
        let context = &self.context;
        let volume = volume_name(&context.settings, &claim.uid);
        if let Some(known) = context.cluster.volumes.store().get(&volume) {
            let own = known.claim.as_ref().is_some_and(|of| of.uid == claim.uid);
            return if own {
                Ok(Step::Rest)
            } else {
                Err(Refusal::NameTaken(volume))
            };
        }
        if claim.in_tree {
            return Err(Refusal::InTree);
        }
        let class = self.class_of(claim)?;
        if class.waits_for_consumer && claim.selected_node.is_none() {
            return Ok(Step::Rest);
        }
        if let (Some(own), None) = (&context.settings.own_node, &claim.selected_node) {
            return self.take(claim, &class, own).await;
        }
        let (intent, original) = self.intent(claim, &class, volume).await?;
        let secret = intent.secrets.provisioner.as_ref();
        let secrets = secrets::read(&context.client, secret).await?;
        Ok(Step::Make(Box::new(Plan {
            intent,
            secrets,
            original,
        })))
    }

    fn class_of(&self, claim: &Claim) -> Result<Arc<Class>, Refusal> {
        let name = claim.class.as_deref().ok_or(Refusal::ClassNotNamed)?;
        let class = self.context.cluster.classes.store().get(name);
        class.ok_or_else(|| Refusal::NoClass(name.to_owned()))
    }

    /// The intent, and the uid of what the claim copies.
    async fn intent(
        &self,
        claim: &Claim,
        class: &Class,
        volume: String,
    ) -> Result<(Intent, Option<String>), Refusal> {
        let settings = &self.context.settings;
        let can = self.context.driver.capabilities();
        let bytes = size_of(claim)?;
        let csi_modes = access::csi_modes(&claim.access_modes, can.single_node_multi_writer())?;
        let parameters =
            Parameters::read(&class.parameters).map_err(|source| Refusal::Parameters {
                class: class.name.clone(),
                source,
            })?;
        let annotations = if parameters.secrets.need_annotations() {
            self.annotations(claim).await?
        } else {
            BTreeMap::new()
        };
        let secrets = parameters.secrets.resolve(PlaceholderValues {
            volume: &volume,
            claim: &claim.name,
            namespace: &claim.namespace,
            annotations: &annotations,
        })?;
        let topology = self.topology(claim, class)?;
        let attributes = self.attributes(claim).await?;
        let (source, original) = match source::find(&self.context, claim, bytes).await? {
            Some(Found { source, uid }) => (Some(source), Some(uid)),
            None => (None, None),
        };
        let only_reads = claim.access_modes == ["ReadOnlyMany"];
        let intent = Intent {
            claim: ClaimKey {
                namespace: claim.namespace.clone(),
                name: claim.name.clone(),
                uid: claim.uid.clone(),
            },
            volume,
            bytes,
            access_modes: claim.access_modes.clone(),
            csi_modes,
            block: claim.block,
            read_only: only_reads && settings.provision.publish_read_only,
            source,
            topology,
            class: Arc::new(facts(class, parameters, settings)),
            attributes,
            secrets,
        };
        Ok((intent, original))
    }

    fn topology(&self, claim: &Claim, class: &Class) -> Result<Option<FrozenTopology>, Refusal> {
        let settings = &self.context.settings.provision;
        match &self.accessibility {
            Accessibility::Everywhere => Ok(None),
            Accessibility::OwnNode(segment) => Ok(segment.clone().map(|segment| FrozenTopology {
                segments: Arc::new([segment]),
                first: 0,
            })),
            Accessibility::Segments(topologies) => {
                let waits = class.waits_for_consumer;
                let selected_node = claim.selected_node.as_deref().filter(|_| waits);
                Ok(topologies.segments().choose(TopologyRequest {
                    claim: &claim.name,
                    selected_node,
                    allowed: &class.allowed_topologies,
                    strict: settings.strict_topology,
                    immediate: settings.immediate_topology,
                })?)
            }
        }
    }

    /// Annotations are not kept in memory: few classes need them.
    async fn annotations(&self, claim: &Claim) -> Result<BTreeMap<String, String>, Refusal> {
        let api =
            Api::<PersistentVolumeClaim>::namespaced(self.context.client.clone(), &claim.namespace);
        let live = api.get(&claim.name).await;
        let live = live.map_err(|error| Refusal::Unreadable(Box::new(error)))?;
        Ok(live.annotations().clone())
    }

    async fn attributes(&self, claim: &Claim) -> Result<Option<AttributesClass>, Refusal> {
        let Some(name) = &claim.attributes_class else {
            return Ok(None);
        };
        let refuse = |reason: String| Refusal::AttributesClass(name.clone(), reason);
        let context = &self.context;
        if context.server.attributes_classes.is_some()
            && !context.driver.capabilities().modify_volume()
        {
            return Err(refuse(
                "cannot be used: the driver cannot modify volumes".to_owned(),
            ));
        }
        let driver = context.driver.name();
        let found = attributes_class::find(&context.client, &context.server, driver, name).await;
        found.map(Some).map_err(|error| refuse(error.to_string()))
    }
}

/// What a claim that can be provisioned at all asks for.
pub(super) fn size_of(claim: &Claim) -> Result<i64, Refusal> {
    if claim.has_selector {
        return Err(Refusal::Selector);
    }
    match quantity::size(&claim.requested)? {
        0 => Err(Refusal::Nothing),
        bytes => Ok(bytes),
    }
}

fn facts(class: &Class, parameters: Parameters, settings: &Settings) -> ClassFacts {
    let fs_type = parameters.fs_type.filter(|name| !name.is_empty());
    ClassFacts {
        name: class.name.clone(),
        uid: class.uid.clone(),
        parameters: parameters.for_driver,
        fs_type: fs_type.unwrap_or_else(|| settings.default_fs_type.clone()),
        mount_options: class.mount_options.clone(),
        reclaim_policy: class.reclaim_policy.clone(),
        extra_metadata: settings.provision.extra_metadata,
    }
}

/// The name of a claim's volume. It follows from the uid alone, so that everybody finds the same one.
fn volume_name(settings: &Settings, uid: &str) -> String {
    settings.provision.naming.name(uid)
}
