//! Versions of Weka, and what each brought.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A version such as `4.4.7` or `4.2.10.1`; segments that are missing count as zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Release {
    text: String,
    numbers: Vec<u32>,
}

/// The first and the last version that can be played; of the last, every patch.
const FIRST: [u32; 2] = [3, 8];
const LAST: [u32; 2] = [5, 1];

/// A text that is not a release that can be simulated.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReleaseError {
    /// No Weka version looks like this.
    #[error("`{0}` is not a Weka release: write numbers with dots, such as `4.4.7`")]
    Unreadable(String),
    /// Nobody knows what it can do.
    #[error("Weka {0} cannot be simulated: use a release from 3.8 to 5.1")]
    Unknown(String),
}

/// What a version may lack. The names are those of the capabilities that clients ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `fileSystems/{uid}/quota`.
    DirectoryQuota,
    /// `fileSystems/{uid}/mountToken` and the mount option `token`.
    MountToken,
    /// Organizations other than Root.
    Organizations,
    /// Query parameters: filters and pages.
    QueryParameters,
    /// Encrypted filesystems.
    Encryption,
    /// Quotas of directories in snapshots take effect.
    SnapshotQuota,
    /// The mount option `sync_on_close`.
    SyncOnClose,
    /// The mount option `container_name`.
    ContainerName,
    /// `processes`, which was `nodes` before.
    Processes,
    /// `fileSystems/{uid}/resolvePath`.
    ResolvePath,
    /// HTTPS, and nothing else.
    OnlyHttps,
    /// Own key of a filesystem.
    FilesystemKey,
    /// `resolvePath` for users with the role CSI.
    ResolvePathForCsiRole,
    /// `has_permissions` of a new filesystem.
    FilesystemOwner,
    /// A directory without quota is answered with 404; before, with 500 and a sentence.
    QuotaNotFoundStatus,
}

impl Feature {
    /// The first version that has it.
    fn since(self) -> &'static [u32] {
        match self {
            Self::DirectoryQuota => &[3, 13],
            Self::MountToken | Self::Organizations => &[3, 14],
            Self::QueryParameters | Self::Encryption => &[4, 0],
            Self::SnapshotQuota
            | Self::SyncOnClose
            | Self::ContainerName
            | Self::Processes
            | Self::QuotaNotFoundStatus => &[4, 2],
            Self::ResolvePath | Self::OnlyHttps => &[4, 3],
            Self::FilesystemKey => &[4, 4, 1],
            Self::ResolvePathForCsiRole => &[4, 4, 7],
            Self::FilesystemOwner => &[5, 1],
        }
    }
}

impl Release {
    /// Whether this version has it.
    pub fn has(&self, feature: Feature) -> bool {
        let since = feature.since();
        let length = since.len().max(self.numbers.len());
        let padded = |numbers: &[u32]| -> Vec<u32> {
            (0..length)
                .map(|i| numbers.get(i).copied().unwrap_or(0))
                .collect()
        };
        padded(&self.numbers) >= padded(since)
    }
}

impl FromStr for Release {
    type Err = ReleaseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        match numbers {
            Ok(numbers) if numbers.len() >= 2 => {
                if !(FIRST..=LAST).contains(&[numbers[0], numbers[1]]) {
                    return Err(ReleaseError::Unknown(text.to_owned()));
                }
                Ok(Self {
                    text: text.to_owned(),
                    numbers,
                })
            }
            _ => Err(ReleaseError::Unreadable(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Release {
    type Error = ReleaseError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Release> for String {
    fn from(release: Release) -> Self {
        release.text
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_begins_with_its_version() {
        let table = [
            (Feature::DirectoryQuota, "3.12.9", "3.13"),
            (Feature::MountToken, "3.13.6", "3.14.0"),
            (Feature::QueryParameters, "3.14.99", "4.0"),
            (Feature::Processes, "4.1.0.71", "4.2.0.0"),
            (Feature::ResolvePath, "4.2.18", "4.3.0"),
            (Feature::OnlyHttps, "4.2.18", "4.3.0"),
            (Feature::FilesystemKey, "4.4.0.9", "4.4.1"),
            (Feature::ResolvePathForCsiRole, "4.4.6", "4.4.7"),
            (Feature::FilesystemOwner, "5.0.3", "5.1.0"),
        ];
        for (feature, before, since) in table {
            let has = |text: &str| text.parse::<Release>().unwrap().has(feature);
            assert!(!has(before), "{feature:?} in {before}");
            assert!(has(since), "{feature:?} not in {since}");
            assert!(has("5.1.99"), "{feature:?} not in 5.1.99");
        }
    }

    #[test]
    fn a_text_that_is_not_a_release_is_refused_by_name() {
        for text in ["", "4", "v4.2", "4.x", "4..2", "4.2-beta"] {
            let error = text.parse::<Release>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn an_unknown_release_is_not_simulated() {
        for text in ["3.8", "3.8.0.1", "5.1.0", "5.1.22.7"] {
            text.parse::<Release>().unwrap();
        }
        for text in ["0.0", "2.9", "3.7.9", "5.2", "5.10", "9.9", "10.0"] {
            let error = text.parse::<Release>().unwrap_err();
            let sentence =
                format!("Weka {text} cannot be simulated: use a release from 3.8 to 5.1");
            assert_eq!(error.to_string(), sentence);
        }
    }
}
