//! What the API server can do: asked once, never guessed.

use kube::Client;

/// The API server's age and abilities. A server drops fields that it does not know without a word, so what it lacks
/// must be known beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// Such as `v1.20.2`.
    pub(crate) version: String,
    minor: u32,
    /// Groups and versions with one of the kinds below.
    pub(crate) attributes_classes: Option<&'static str>,
    pub(crate) storage_capacities: Option<&'static str>,
    pub(crate) snapshots: bool,
    pub(crate) group_snapshots: bool,
}

/// The versions of the storage group, the best first.
const STORAGE: [&str; 3] = ["storage.k8s.io/v1", "storage.k8s.io/v1beta1", ALPHA];
/// Kinds of this version may be incomplete.
pub(crate) const ALPHA: &str = "storage.k8s.io/v1alpha1";

/// Snapshots come with definitions that somebody installs, maybe while we run.
pub(crate) const SNAPSHOTS: &str = "snapshot.storage.k8s.io/v1";
pub(crate) const GROUP_SNAPSHOTS: &str = "groupsnapshot.storage.k8s.io/v1";

/// Why the server cannot be worked with.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It does not answer, or not to us.
    #[error("the API server cannot be asked what it can do")]
    Unreachable(#[source] Box<kube::Error>),
    /// It is older than anything that was tried.
    #[error("the API server is Kubernetes {0}: this needs 1.20 or newer")]
    TooOld(String),
}

impl Server {
    /// Asks the server.
    pub(crate) async fn discover(client: &Client) -> Result<Self, ServerError> {
        let unreachable = |error| ServerError::Unreachable(Box::new(error));
        let info = client.apiserver_version().await.map_err(unreachable)?;
        let major = number(&info.major);
        let minor = number(&info.minor);
        if (major, minor) < (1, 20) {
            return Err(ServerError::TooOld(info.git_version));
        }
        let found = group_versions(client).await.map_err(unreachable)?;
        let has = |version: &str| found.iter().any(|known| known == version);
        let mut kinds = Vec::new();
        for version in STORAGE.into_iter().filter(|version| has(version)) {
            let all = client.list_api_group_resources(version).await;
            let all = all.map_err(unreachable)?.resources.into_iter();
            kinds.extend(all.map(|kind| (version, kind.name)));
        }
        let first = |kind: &str| {
            let mut kinds = kinds.iter();
            kinds
                .find(|(_, name)| name == kind)
                .map(|(version, _)| *version)
        };
        Ok(Self {
            version: info.git_version,
            minor,
            attributes_classes: first("volumeattributesclasses")
                .filter(|version| *version != ALPHA),
            storage_capacities: first("csistoragecapacities"),
            snapshots: has(SNAPSHOTS),
            group_snapshots: has(GROUP_SNAPSHOTS),
        })
    }

    /// Whether errors of attachments have a field for the gRPC code, which the kubelet reads: from 1.34 on.
    pub(crate) fn has_attach_error_codes(&self) -> bool {
        self.minor >= 34
    }

    /// Whether claims have fields for the size that is being reached, so that a failed expansion can be taken back:
    /// from 1.28 on. Up to 1.31 they may be off, and are dropped without a word.
    pub(crate) fn has_expansion_recovery(&self) -> bool {
        self.minor >= 28
    }

    /// What is off here, and why; for the log at the start.
    pub(crate) fn features_off(&self) -> Vec<String> {
        let mut off = Vec::new();
        if self.attributes_classes.is_none() {
            off.push("VolumeAttributesClass: the server has no such kind (from 1.29 on, by feature gate)".to_owned());
        }
        if self.storage_capacities.is_none() {
            off.push("CSIStorageCapacity: the server has no such kind (from 1.21 on)".to_owned());
        }
        if !self.snapshots {
            off.push("snapshots, and volumes from them: the kinds of snapshot.storage.k8s.io/v1 are not installed (`stowage crds`)".to_owned());
        }
        if !self.group_snapshots {
            off.push("snapshots of groups: the kinds of groupsnapshot.storage.k8s.io/v1 are not installed (`stowage crds`)".to_owned());
        }
        if !self.has_attach_error_codes() {
            off.push(
                "codes of attach errors: the server has no field for them (from 1.34 on)"
                    .to_owned(),
            );
        }
        if !self.has_expansion_recovery() {
            off.push(
                "recovery from failed expansions: claims have no field for it (from 1.28 on)"
                    .to_owned(),
            );
        }
        off
    }
}

/// All groups with their versions.
pub(crate) async fn group_versions(client: &Client) -> Result<Vec<String>, kube::Error> {
    let groups = client.list_api_groups().await?.groups.into_iter();
    let versions = groups.flat_map(|group| group.versions);
    Ok(versions.map(|version| version.group_version).collect())
}

/// `20`, or `20+` as some vendors write it.
fn number(text: &str) -> u32 {
    let digits = text.trim_end_matches(|last: char| !last.is_ascii_digit());
    digits.parse().unwrap_or(0)
}
