//! What a user and Kubernetes do with claims and attachments; patient with an API server that is away.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim},
    storage::v1::{StorageClass, VolumeAttachment},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use stowage_service::{KubeArgs, client};
use stowage_sidecar::journal::journal_name;
use tokio::{sync::watch, time::Instant};

use crate::account::{AttachmentSeen, ClaimSeen, Snapshot, VolumeSeen};

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
        };
        let namespace = json!({"metadata": {"name": name}});
        create::<Namespace>(&Api::all(cluster.client.clone()), namespace).await;
        let class = json!({
            "metadata": {"name": name},
            "provisioner": cluster.driver,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        });
        create::<StorageClass>(&Api::all(cluster.client.clone()), class).await;
        cluster
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

    pub fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub async fn create_claim(&self, name: &str) {
        let object = json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        create(&self.claims(), object).await;
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
    pub async fn look(&self) -> kube::Result<Snapshot> {
        let all = ListParams::default();
        // Attachments first: a volume that an attachment names is then in the later list, unless it is gone.
        let attachments = self.attachments().list(&all).await?;
        let volumes = self.volumes().list(&all).await?;
        let claims = self.claims().list(&all).await?;
        Ok(Snapshot {
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
        let text = lease
            .annotations()
            .get(INTENTS)
            .map_or("{}", String::as_str);
        let journal: Value = serde_json::from_str(text).unwrap();
        let entries = journal["entries"].as_array().into_iter().flatten();
        entries.map(|entry| entry["c"].to_string()).collect()
    }

    /// Who holds the driver's lease.
    pub async fn leader(&self) -> Option<String> {
        let name = self.driver.replace('.', "-");
        let lease = insist("read the lease", || async {
            self.leases().get_opt(&name).await
        });
        lease.await?.spec?.holder_identity
    }

    /// Looks again and again, for as long as somebody is interested.
    pub fn watch(&self) -> watch::Receiver<Snapshot> {
        let (sender, receiver) = watch::channel(Snapshot::default());
        let cluster = self.clone();
        tokio::spawn(async move {
            while !sender.is_closed() {
                // A server that is away has no news.
                if let Ok(snapshot) = cluster.look().await {
                    sender.send_replace(snapshot);
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        receiver
    }
}

fn claim_seen(claim: PersistentVolumeClaim) -> (String, ClaimSeen) {
    let phase = claim.status.and_then(|status| status.phase);
    let volume = claim.spec.and_then(|spec| spec.volume_name);
    let seen = ClaimSeen {
        uid: claim.metadata.uid.unwrap_or_default(),
        bound_to: volume.filter(|_| phase.as_deref() == Some("Bound")),
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
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
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

/// The names of a map, for messages.
pub fn names<T>(map: &BTreeMap<String, T>) -> Vec<String> {
    map.keys().cloned().collect()
}
