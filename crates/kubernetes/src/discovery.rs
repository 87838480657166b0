//! What the API server can do: asked, never guessed. A server drops fields that it does not know without a word, so
//! what it lacks must be known beforehand.

use std::collections::BTreeSet;

use kube::Client;

/// The oldest server that was ever tried.
const OLDEST: (u32, u32) = (1, 20);

/// The API server's age, and the groups it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Such as `v1.20.2`.
    pub version: String,
    minor: u32,
    group_versions: BTreeSet<String>,
}

/// Why the server cannot be worked with.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It does not answer, or not to us.
    #[error("cannot ask the API server what it serves")]
    Unreachable(#[source] Box<kube::Error>),
    /// It is older than anything that was tried.
    #[error("the API server is Kubernetes {0}: 1.20 or newer is required")]
    TooOld(String),
}

impl From<kube::Error> for ServerError {
    fn from(error: kube::Error) -> Self {
        Self::Unreachable(Box::new(error))
    }
}

impl Server {
    /// Asks the server.
    pub async fn discover(client: &Client) -> Result<Self, ServerError> {
        let info = client.apiserver_version().await?;
        let (major, minor) = (number(&info.major), number(&info.minor));
        if (major, minor) < OLDEST {
            return Err(ServerError::TooOld(info.git_version));
        }
        Ok(Self {
            version: info.git_version,
            minor,
            group_versions: group_versions(client).await?,
        })
    }

    /// Whether the server is Kubernetes 1.`minor` or newer.
    pub fn is_at_least(&self, minor: u32) -> bool {
        self.minor >= minor
    }

    /// Whether the server serves this version of a group, such as `policy/v1`.
    pub fn serves(&self, group_version: &str) -> bool {
        self.group_versions.contains(group_version)
    }

    /// Whether the server serves a group in any version, such as `security.openshift.io`.
    pub fn serves_group(&self, group: &str) -> bool {
        let mut versions = self.group_versions.iter();
        versions.any(|version| version.split('/').next() == Some(group))
    }

    /// Which of these versions of a group the server serves, the first one that it does.
    pub fn first_served(&self, best_first: &[&'static str]) -> Option<&'static str> {
        first_of(&self.group_versions, best_first)
    }

    /// Which of these versions of a group has a kind, the first one that does. `plural` is the kind's name in paths.
    pub async fn version_with(
        &self,
        client: &Client,
        plural: &str,
        best_first: &[&'static str],
    ) -> Result<Option<&'static str>, ServerError> {
        for version in best_first.iter().filter(|version| self.serves(version)) {
            let kinds = client.list_api_group_resources(version).await?.resources;
            if kinds.iter().any(|kind| kind.name == plural) {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }
}

/// All groups that the server serves now, with their versions.
pub async fn group_versions(client: &Client) -> Result<BTreeSet<String>, kube::Error> {
    let groups = client.list_api_groups().await?.groups.into_iter();
    let versions = groups.flat_map(|group| group.versions);
    Ok(versions.map(|version| version.group_version).collect())
}

/// The first of these versions that is among those a server has.
pub fn first_of(served: &BTreeSet<String>, best_first: &[&'static str]) -> Option<&'static str> {
    let mut versions = best_first.iter().copied();
    versions.find(|version| served.contains(*version))
}

/// `20`, or `20+` as some vendors write it.
fn number(text: &str) -> u32 {
    let digits = text.trim_end_matches(|last: char| !last.is_ascii_digit());
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_vendors_are_numbers_too() {
        assert_eq!(
            [number("20"), number("27+"), number("")],
            [20, 27, 0],
            "EKS and GKE write a plus sign"
        );
    }
}
