//! Who uses a driver right now.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::{PersistentVolume, Pod, Volume as PodVolume};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use stowage_kubernetes::answer::Answer;
use stowage_kubernetes::pages;
use stowage_kubernetes::pod_claims::claim_of;

use super::Cluster;
use super::source::{SNAPSHOTS, Source};

/// How many of a kind are named.
const NAMED: usize = 3;
/// Up to so many namespaces are asked for their pods one by one.
const FEW_NAMESPACES: usize = 16;

/// Namespace and name of a claim.
pub type Claim = (String, String);

/// What holds on to a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Volumes of the driver, used or not.
    volumes: Vec<String>,
    /// Snapshots of the driver: only it can delete them.
    snapshots: Vec<String>,
    /// The same of groups of volumes.
    group_snapshots: Vec<String>,
    /// Where volumes are attached.
    attachments: Vec<String>,
    /// Pods with volumes of it.
    pods: Vec<String>,
    /// Claims for which it may have made volumes that nobody knows of yet.
    intents: Vec<String>,
    /// Where volumes of it are mounted, as far as that is known.
    mounts: Vec<NodeMounts>,
}

/// What is mounted of a driver's volumes on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMounts {
    /// The node.
    pub node: String,
    /// How many mounts.
    pub count: usize,
}

impl Usage {
    /// Whether the driver has nothing to look after.
    pub fn is_none(&self) -> bool {
        let is_known = self.has_objects() || self.is_at_work();
        !is_known && self.intents.is_empty() && self.mounts.is_empty()
    }

    /// The same, with claims for which volumes are being made.
    #[must_use]
    pub fn with_intents(self, intents: Vec<String>) -> Self {
        Self { intents, ..self }
    }

    /// The same, with what nodes tell about mounts.
    #[must_use]
    pub fn with_mounts(self, mut mounts: Vec<NodeMounts>) -> Self {
        mounts.sort_by(|one, other| one.node.cmp(&other.node));
        Self { mounts, ..self }
    }

    /// Whether volumes or snapshots of the driver exist: a watch tells when they are gone.
    pub fn has_objects(&self) -> bool {
        let kinds = [&self.volumes, &self.snapshots, &self.group_snapshots];
        kinds.iter().any(|it| !it.is_empty())
    }

    /// Whether volumes of the driver are attached or in pods.
    pub fn is_at_work(&self) -> bool {
        !self.attachments.is_empty() || !self.pods.is_empty()
    }
}

impl fmt::Display for Usage {
    /// How many of each kind there are, and the first few by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mounts: Vec<_> = self.mounts.iter().map(ToString::to_string).collect();
        let mounted = self.mounts.iter().map(|it| it.count).sum();
        let kinds = [
            ("PersistentVolume", self.volumes.len(), &self.volumes),
            (
                "VolumeSnapshotContent",
                self.snapshots.len(),
                &self.snapshots,
            ),
            (
                "VolumeGroupSnapshotContent",
                self.group_snapshots.len(),
                &self.group_snapshots,
            ),
            (
                "VolumeAttachment",
                self.attachments.len(),
                &self.attachments,
            ),
            ("Pod", self.pods.len(), &self.pods),
            ("open intent", self.intents.len(), &self.intents),
            ("mount", mounted, &mounts),
        ];
        let told = kinds.iter().filter(|(_, count, _)| *count > 0);
        let told = told.map(|(kind, count, names)| {
            let plural = if *count == 1 { "" } else { "s" };
            format!("{count} {kind}{plural} ({})", first_few(names))
        });
        f.write_str(&told.collect::<Vec<_>>().join(", "))
    }
}

/// The first few of these names.
pub fn first_few(names: &[String]) -> String {
    let mut first: Vec<_> = names.iter().take(NAMED).map(String::as_str).collect();
    if names.len() > NAMED {
        first.push("...");
    }
    first.join(", ")
}

impl fmt::Display for NodeMounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on node {}", self.count, self.node)
    }
}

/// A volume of a driver, and the claim by which pods get it.
type Volume = (String, Option<Claim>);

/// What holds on to a driver, by what the API server has at this moment.
pub async fn of(client: &Client, cluster: &Cluster, driver: &str) -> Result<Usage, kube::Error> {
    let attached = attachments(client, driver).await?;
    let mut volumes = cluster.volumes_of(driver);
    // What is watched may be behind: that there are none is asked for.
    if volumes.is_empty() {
        volumes = listed_volumes(client, driver).await?;
    }
    let pods = users(client, driver, &volumes).await?;
    Ok(Usage {
        volumes: volumes.into_iter().map(|(name, _)| name).collect(),
        snapshots: contents(client, Source::SnapshotContents, SNAPSHOTS, driver).await?,
        group_snapshots: group_snapshots(client, cluster, driver).await?,
        attachments: attached
            .iter()
            .map(|it| format!("{} on node {}", it.name_any(), it.spec.node_name))
            .collect(),
        pods,
        ..Usage::default()
    })
}

/// The snapshots of groups of volumes of a driver.
async fn group_snapshots(
    client: &Client,
    cluster: &Cluster,
    driver: &str,
) -> Result<Vec<String>, kube::Error> {
    // Classes and contents come in the same versions.
    let source = Source::GroupSnapshotContents;
    let version = cluster.served().versions().group_snapshot_class;
    match version.and_then(|version| source.group_version(version)) {
        Some(version) => contents(client, source, version, driver).await,
        None => Ok(Vec::new()),
    }
}

/// The snapshots of a driver, whatever is to become of them.
async fn contents(
    client: &Client,
    source: Source,
    version: &str,
    driver: &str,
) -> Result<Vec<String>, kube::Error> {
    let contents = source.resource(version);
    let contents = Api::<DynamicObject>::all_with(client.clone(), &contents);
    let is_ours = |it: &DynamicObject| it.data["spec"]["driver"] == driver;
    let ours = |it: DynamicObject| is_ours(&it).then(|| it.name_any());
    match pages::list(&contents, &ListParams::default(), ours).await {
        // A cluster without snapshots.
        Err(error) if Answer::of(&error) == Answer::NotServed => Ok(Vec::new()),
        listed => listed,
    }
}

/// Where volumes of a driver are attached.
pub async fn attachments(
    client: &Client,
    driver: &str,
) -> Result<Vec<VolumeAttachment>, kube::Error> {
    let all = Api::<VolumeAttachment>::all(client.clone());
    let is_ours = |it: VolumeAttachment| (it.spec.attacher == driver).then_some(it);
    pages::list(&all, &ListParams::default(), is_ours).await
}

async fn listed_volumes(client: &Client, driver: &str) -> Result<Vec<Volume>, kube::Error> {
    let all = Api::<PersistentVolume>::all(client.clone());
    let ours = |it: PersistentVolume| is_of(&it, driver).then(|| (it.name_any(), bound_claim(&it)));
    pages::list(&all, &ListParams::default(), ours).await
}

/// Pods with volumes of a driver: where its claims are, and everywhere only if pods may bring volumes of it along.
async fn users(
    client: &Client,
    driver: &str,
    volumes: &[Volume],
) -> Result<Vec<String>, kube::Error> {
    let claims: BTreeSet<_> = volumes.iter().filter_map(|it| it.1.as_ref()).collect();
    let namespaces: BTreeSet<_> = claims.iter().map(|claim| claim.0.as_str()).collect();
    let user = |pod: Pod| {
        let title = || format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        uses(&pod, driver, |claim| claims.contains(claim)).then(title)
    };
    let everything = ListParams::default();
    if namespaces.len() > FEW_NAMESPACES || has_inline_volumes(client, driver).await? {
        let pods = Api::<Pod>::all(client.clone());
        return pages::list(&pods, &everything, user).await;
    }
    let mut users = Vec::new();
    for namespace in namespaces {
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        users.extend(pages::list(&pods, &everything, user).await?);
    }
    Ok(users)
}

/// Whether pods may have volumes of a driver that are no PersistentVolumes: kubelets mount them only if its CSIDriver says so.
async fn has_inline_volumes(client: &Client, driver: &str) -> Result<bool, kube::Error> {
    let driver = Api::<CSIDriver>::all(client.clone())
        .get_opt(driver)
        .await?;
    let modes = driver.and_then(|it| it.spec.volume_lifecycle_modes);
    Ok(modes.iter().flatten().any(|it| it == "Ephemeral"))
}

/// The driver of a volume, by what the API server has at this moment.
pub async fn driver_of(client: &Client, volume: &str) -> Result<Option<String>, kube::Error> {
    let volume = Api::<PersistentVolume>::all(client.clone())
        .get_opt(volume)
        .await?;
    Ok(volume.and_then(|it| Some(it.spec?.csi?.driver)))
}

fn is_of(volume: &PersistentVolume, driver: &str) -> bool {
    let source = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    source.is_some_and(|source| source.driver == driver)
}

/// The claim by which pods get a volume. One that is kept goes on to name the claim that it had: another of that name is not its own.
fn bound_claim(volume: &PersistentVolume) -> Option<Claim> {
    let phase = volume.status.as_ref().and_then(|it| it.phase.as_deref());
    if matches!(phase, Some("Released" | "Failed")) {
        return None;
    }
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some((claim.namespace.clone()?, claim.name.clone()?))
}

/// Whether a pod that runs has a volume of a driver.
pub fn uses(pod: &Pod, driver: &str, is_claim: impl Fn(&Claim) -> bool) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return false;
    }
    let inline = volumes(pod).filter_map(|volume| volume.csi.as_ref());
    inline.into_iter().any(|csi| csi.driver == driver) || claims_of(pod).iter().any(is_claim)
}

/// The claims of a pod's volumes.
pub fn claims_of(pod: &Pod) -> Vec<Claim> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let claims = volumes(pod).filter_map(|volume| claim_of(&name, volume));
    claims.map(|claim| (namespace.clone(), claim)).collect()
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &PodVolume> {
    let spec = pod.spec.iter();
    spec.filter_map(|spec| spec.volumes.as_ref()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_are_named_and_all_are_counted() {
        let names = |count: usize| (0..count).map(|it| format!("v{it}")).collect();
        let usage = Usage {
            volumes: names(5),
            snapshots: names(1),
            group_snapshots: Vec::new(),
            attachments: Vec::new(),
            pods: vec!["default/db-0".to_owned()],
            ..Usage::default()
        };
        let told = "5 PersistentVolumes (v0, v1, v2, ...), 1 VolumeSnapshotContent (v0), 1 Pod (default/db-0)";
        assert_eq!(usage.to_string(), told);
        assert!(!usage.is_none() && usage.is_at_work());
        let retained = Usage {
            volumes: names(1),
            ..Usage::default()
        };
        assert!(!retained.is_none() && !retained.is_at_work());
        let mounts = [("b", 1), ("a", 2)].map(|(node, count)| NodeMounts {
            node: node.to_owned(),
            count,
        });
        let mounted = Usage::default().with_mounts(mounts.into());
        assert_eq!(mounted.to_string(), "3 mounts (2 on node a, 1 on node b)");
        assert!(!mounted.is_none());
        let begun = Usage::default().with_intents(vec!["default/data".to_owned()]);
        assert_eq!(begun.to_string(), "1 open intent (default/data)");
        assert!(!begun.is_none() && !begun.is_at_work());
        assert!(Usage::default().is_none());
    }
}
