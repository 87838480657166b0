//! What a user and Kubernetes do with claims and attachments; patient with an API server that is away.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use stowage_api::quantity;
use stowage_api::snapshot::names::{self, CONTROLLER_LEASE};
use stowage_api::snapshot::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use stowage_service::{KubeArgs, client};
use stowage_sidecar::journal::{journal_name, listing};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::faults::account::{
    AttachmentSeen, ClaimSeen, ContentSeen, Picture, SnapshotSeen, VolumeSeen,
};
use crate::faults::line::{RESTORED, SIZE};
use crate::faults::replica::Role;

/// Longer than anything takes: an API server that was away is found again by everybody within a minute.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Where the journal is in its Lease.
const INTENTS: &str = "stowage.dev/intents";

/// One driver's part of a cluster. Namespace, class and driver have the same name.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
    pub name: String,
    pub driver: String,
    /// The server has the kinds of snapshots.
    has_snapshots: bool,
}

impl Cluster {
    /// Makes namespace and class.
    pub async fn prepare(kubeconfig: &std::path::Path, name: &str) -> Self {
        let args = KubeArgs {
            kubeconfig: Some(kubeconfig.into()),
        };
        let config = args.config().await.unwrap();
        let cluster = Self {
            client: client::connect_without_retry(config).unwrap(),
            name: name.to_owned(),
            driver: format!("{name}.stowage.test"),
            has_snapshots: false,
        };
        let namespace = json!({"metadata": {"name": name}});
        create::<Namespace>(&Api::all(cluster.client.clone()), namespace).await;
        let class = json!({
            "metadata": {"name": name},
            "provisioner": cluster.driver,
            "reclaimPolicy": "Delete",
            "allowVolumeExpansion": true,
            "volumeBindingMode": "Immediate",
        });
        create::<StorageClass>(&Api::all(cluster.client.clone()), class).await;
        cluster
    }

    /// Makes the class of snapshots; the server has their kinds by now.
    pub async fn prepare_snapshots(&mut self) {
        let class = json!({
            "metadata": {"name": self.name},
            "driver": self.driver,
            "deletionPolicy": "Delete",
        });
        create::<VolumeSnapshotClass>(&Api::all(self.client.clone()), class).await;
        self.has_snapshots = true;
    }

    pub fn node(&self, number: usize) -> String {
        format!("{}-node-{number}", self.name)
    }

    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    pub fn attachments(&self) -> Api<VolumeAttachment> {
        Api::all(self.client.clone())
    }

    pub fn snapshots(&self) -> Api<VolumeSnapshot> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub fn contents(&self) -> Api<VolumeSnapshotContent> {
        Api::all(self.client.clone())
    }

    pub fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub async fn create_claim(&self, name: &str) {
        self.claim_of(name, SIZE, Value::Null).await;
    }

    /// A claim whose volume is made from a snapshot.
    pub async fn restore(&self, name: &str, snapshot: &str) {
        let source = json!({
            "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot,
        });
        self.claim_of(name, RESTORED, source).await;
    }

    async fn claim_of(&self, name: &str, size: i64, source: Value) {
        let object = json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.name,
                "resources": {"requests": {"storage": size.to_string()}},
                "dataSource": source,
            },
        });
        create(&self.claims(), object).await;
    }

    /// Asks for a claim to become larger.
    pub async fn grow(&self, claim: &str, size: i64) {
        let request = json!({"spec": {"resources": {"requests": {"storage": size.to_string()}}}});
        let (claims, params) = (self.claims(), PatchParams::default());
        let patch = Patch::Merge(request);
        insist("let a claim grow", || claims.patch(claim, &params, &patch)).await;
    }

    /// Asks for a snapshot of a claim, of the same name.
    pub async fn take(&self, claim: &str) {
        let object = json!({
            "metadata": {"name": claim},
            "spec": {
                "source": {"persistentVolumeClaimName": claim},
                "volumeSnapshotClassName": self.name,
            },
        });
        create(&self.snapshots(), object).await;
    }

    /// Asks for a volume at a node, as Kubernetes' attach controller does. Returns the attachment's name.
    pub async fn attach(&self, volume: &str, node: usize) -> String {
        let name = format!("{volume}-{node}");
        let object = json!({
            "metadata": {"name": name},
            "spec": {
                "attacher": self.driver,
                "nodeName": self.node(node),
                "source": {"persistentVolumeName": volume},
            },
        });
        create(&self.attachments(), object).await;
        name
    }

    /// What there is of this driver.
    pub async fn look(&self) -> kube::Result<Picture> {
        let all = ListParams::default();
        // Attachments first: a volume that an attachment names is then in the later list, unless it is gone.
        let attachments = self.attachments().list(&all).await?;
        let volumes = self.volumes().list(&all).await?;
        let claims = self.claims().list(&all).await?;
        let (mut snapshots, mut contents) = (BTreeMap::new(), BTreeMap::new());
        if self.has_snapshots {
            let found = self.snapshots().list(&all).await?;
            snapshots.extend(found.into_iter().map(snapshot_seen));
            let found = self.contents().list(&all).await?.into_iter();
            let ours = found.filter(|content| content.spec.driver == self.driver);
            contents.extend(ours.map(content_seen));
        }
        Ok(Picture {
            snapshots,
            contents,
            claims: claims.into_iter().map(claim_seen).collect(),
            volumes: volumes
                .into_iter()
                .filter_map(|volume| self.volume_seen(volume))
                .collect(),
            attachments: attachments
                .into_iter()
                .filter(|attachment| attachment.spec.attacher == self.driver)
                .map(attachment_seen)
                .collect(),
        })
    }

    fn volume_seen(&self, volume: PersistentVolume) -> Option<(String, VolumeSeen)> {
        let name = volume.name_any();
        let deleting = volume.metadata.deletion_timestamp.is_some();
        let finalizers = volume.metadata.finalizers.unwrap_or_default();
        let spec = volume.spec?;
        let csi = spec.csi.filter(|csi| csi.driver == self.driver)?;
        let claim = spec.claim_ref.unwrap_or_default();
        let seen = VolumeSeen {
            handle: csi.volume_handle,
            claim: claim.name.unwrap_or_default(),
            phase: volume.status.and_then(|s| s.phase).unwrap_or_default(),
            size: bytes(spec.capacity.as_ref()),
            deleting,
            finalizers,
        };
        Some((name, seen))
    }

    /// Claims whose volumes may be half made, as the sidecar has noted them.
    pub async fn intents(&self) -> Vec<String> {
        let name = journal_name(&self.driver, None);
        let lease = insist("read the journal", || async {
            self.leases().get_opt(&name).await
        });
        let Some(lease) = lease.await else {
            return Vec::new();
        };
        let text = lease.annotations().get(INTENTS);
        let intents = text.map(|text| listing::read(text).unwrap());
        let intents = intents.unwrap_or_default().into_iter();
        intents.map(|intent| intent.claim.name).collect()
    }

    /// Who holds the lease of a role.
    pub async fn leader(&self, role: Role) -> Option<String> {
        let name = match role {
            Role::Sidecar => self.driver.replace('.', "-"),
            Role::SnapshotController => CONTROLLER_LEASE.to_owned(),
        };
        let lease = insist("read the lease", || async {
            self.leases().get_opt(&name).await
        });
        lease.await?.spec?.holder_identity
    }

    /// Looks again and again, for as long as somebody is interested.
    pub fn watch(&self) -> watch::Receiver<Picture> {
        let (sender, receiver) = watch::channel(Picture::default());
        let cluster = self.clone();
        tokio::spawn(async move {
            while !sender.is_closed() {
                // A server that is away has no news.
                if let Ok(picture) = cluster.look().await {
                    sender.send_replace(picture);
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        receiver
    }
}

fn claim_seen(claim: PersistentVolumeClaim) -> (String, ClaimSeen) {
    let status = claim.status.unwrap_or_default();
    let phase = status.phase;
    let conditions = status.conditions.into_iter().flatten();
    let volume = claim.spec.and_then(|spec| spec.volume_name);
    let seen = ClaimSeen {
        uid: claim.metadata.uid.unwrap_or_default(),
        bound_to: volume.filter(|_| phase.as_deref() == Some("Bound")),
        size: bytes(status.capacity.as_ref()),
        conditions: conditions.map(|condition| condition.type_).collect(),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        finalizers: claim.metadata.finalizers.unwrap_or_default(),
    };
    (claim.metadata.name.unwrap_or_default(), seen)
}

fn attachment_seen(attachment: VolumeAttachment) -> (String, AttachmentSeen) {
    let seen = AttachmentSeen {
        volume: attachment
            .spec
            .source
            .persistent_volume_name
            .unwrap_or_default(),
        node: attachment.spec.node_name,
        attached: attachment.status.is_some_and(|status| status.attached),
        deleting: attachment.metadata.deletion_timestamp.is_some(),
        finalizers: attachment.metadata.finalizers.unwrap_or_default(),
    };
    (attachment.metadata.name.unwrap_or_default(), seen)
}

fn snapshot_seen(snapshot: VolumeSnapshot) -> (String, SnapshotSeen) {
    let status = snapshot.status.unwrap_or_default();
    let seen = SnapshotSeen {
        uid: snapshot.metadata.uid.unwrap_or_default(),
        content: status.bound_volume_snapshot_content_name,
        ready: status.ready_to_use == Some(true),
        error: status.error.map(|error| error.message.unwrap_or_default()),
        deleting: snapshot.metadata.deletion_timestamp.is_some(),
        finalizers: snapshot.metadata.finalizers.unwrap_or_default(),
    };
    (snapshot.metadata.name.unwrap_or_default(), seen)
}

fn content_seen(content: VolumeSnapshotContent) -> (String, ContentSeen) {
    let status = content.status.unwrap_or_default();
    let annotations = content.metadata.annotations.unwrap_or_default();
    let marks = [names::SNAPSHOT.being_created, names::SNAPSHOT.being_deleted].into_iter();
    let marks = marks.filter(|mark| annotations.contains_key(*mark));
    let seen = ContentSeen {
        owner_uid: content.spec.volume_snapshot_ref.uid.unwrap_or_default(),
        handle: status.snapshot_handle,
        ready: status.ready_to_use == Some(true),
        marks: marks.map(str::to_owned).collect(),
        deleting: content.metadata.deletion_timestamp.is_some(),
        finalizers: content.metadata.finalizers.unwrap_or_default(),
    };
    (content.metadata.name.unwrap_or_default(), seen)
}

/// How much storage there is of all that is listed.
fn bytes(of: Option<&BTreeMap<String, Quantity>>) -> i64 {
    let storage = of.and_then(|all| all.get("storage"));
    storage.map_or(0, |amount| quantity::size(&amount.0).unwrap())
}

/// Creates an object. Called twice: it is there.
pub async fn create<K>(api: &Api<K>, object: Value)
where
    K: serde::de::DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    insist("create an object", || async {
        match api.create(&PostParams::default(), &object).await {
            // The answer to an earlier attempt was lost.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            other => other.map(drop),
        }
    })
    .await;
}

/// Deletes an object. Called twice: it is gone.
pub async fn delete<K>(api: &Api<K>, name: &str)
where
    K: serde::de::DeserializeOwned + Clone + std::fmt::Debug,
{
    insist("delete an object", || async {
        match api.delete(name, &DeleteParams::default()).await {
            // A server that has just started does not serve every kind yet: it says 404 too, and names no object.
            Err(kube::Error::Api(status))
                if status.code == 404
                    && status
                        .details
                        .as_ref()
                        .is_some_and(|it| !it.name.is_empty()) =>
            {
                Ok(())
            }
            other => other.map(drop),
        }
    })
    .await;
}

/// Tries until the API server agrees.
pub async fn insist<T, F>(what: &str, attempt: impl Fn() -> F) -> T
where
    F: Future<Output = kube::Result<T>>,
{
    let give_up = Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < give_up, "cannot {what}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The names of what a map holds.
pub fn names_in<T>(map: &BTreeMap<String, T>) -> Vec<String> {
    map.keys().cloned().collect()
}
