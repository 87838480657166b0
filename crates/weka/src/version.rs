//! What a Weka cluster can do, by its release.

use std::fmt;

/// A release such as `4.2.7.64` or `5.1.0-beta`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    text: String,
    /// None if it cannot be parsed; then only what every cluster supports is used.
    numbers: Option<[u64; 4]>,
}

/// What only some clusters do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capability {
    DirectoryQuota,
    /// Volumes that are filesystems or snapshots.
    FilesystemVolumes,
    /// Mount tokens, and organizations besides `Root`.
    AuthenticatedMounts,
    QueryParameters,
    /// Encrypted filesystems.
    Encryption,
    /// Quotas hold in snapshots, too.
    SnapshotQuota,
    SyncOnClose,
    /// One client of several clusters, told apart by `container_name`.
    ClientOfManyClusters,
    /// `processes` in place of `nodes`.
    Processes,
    ResolvePath,
    /// The same for a user with the role `CSI`.
    ResolvePathAsCsiUser,
    /// A key for each filesystem.
    FilesystemKey,
    /// Filesystems that only their owner may use.
    FilesystemOwner,
}

impl Capability {
    fn since(self) -> [u64; 4] {
        match self {
            Self::DirectoryQuota | Self::FilesystemVolumes => [3, 13, 0, 0],
            Self::AuthenticatedMounts => [3, 14, 0, 0],
            Self::QueryParameters | Self::Encryption => [4, 0, 0, 0],
            Self::SnapshotQuota
            | Self::SyncOnClose
            | Self::ClientOfManyClusters
            | Self::Processes => [4, 2, 0, 0],
            Self::ResolvePath => [4, 3, 0, 0],
            Self::FilesystemKey => [4, 4, 1, 0],
            Self::ResolvePathAsCsiUser => [4, 4, 7, 0],
            Self::FilesystemOwner => [5, 1, 0, 0],
        }
    }
}

impl Release {
    /// Reads a release as the cluster reports it. Never fails: an unknown form means a cluster that can do little.
    pub(crate) fn parse(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            numbers: numbers(text.trim()),
        }
    }

    /// Whether the cluster can do this.
    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.numbers
            .is_some_and(|numbers| numbers >= capability.since())
    }

    /// Whether the release could be parsed.
    pub(crate) fn is_known(&self) -> bool {
        self.numbers.is_some()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Up to four numbers; what follows a `-` or `+` says how far along a release is and does not matter here.
fn numbers(text: &str) -> Option<[u64; 4]> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let text = text.split(['-', '+']).next()?;
    let mut numbers = [0; 4];
    let mut count = 0;
    for (index, part) in text.split('.').enumerate() {
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = part.parse().ok()?;
        // Builds may have a fifth number, which no capability depends on.
        if let Some(place) = numbers.get_mut(index) {
            *place = number;
        }
        count = index + 1;
    }
    (count >= 2).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Capability as C;

    #[test]
    fn capabilities_come_with_releases() {
        for (release, has, lacks) in [
            ("3.12.9", vec![], vec![C::DirectoryQuota]),
            (
                "3.13",
                vec![C::DirectoryQuota],
                vec![C::AuthenticatedMounts],
            ),
            (
                "3.14.0.1",
                vec![C::AuthenticatedMounts],
                vec![C::QueryParameters],
            ),
            (
                "4.1.99",
                vec![C::QueryParameters, C::Encryption],
                vec![C::SyncOnClose, C::SnapshotQuota],
            ),
            (
                "4.2.0",
                vec![C::SyncOnClose, C::ClientOfManyClusters, C::Processes],
                vec![C::ResolvePath],
            ),
            ("4.4.0.9", vec![C::ResolvePath], vec![C::FilesystemKey]),
            (
                "4.4.6.100",
                vec![C::ResolvePath, C::FilesystemKey],
                vec![C::ResolvePathAsCsiUser],
            ),
            (
                "4.4.7",
                vec![C::ResolvePathAsCsiUser],
                vec![C::FilesystemOwner],
            ),
            ("v5.1.0-beta+7", vec![C::FilesystemOwner], vec![]),
            ("10.0.0.0.1", vec![C::ResolvePathAsCsiUser], vec![]),
        ] {
            let release = Release::parse(release);
            assert!(release.is_known());
            for capability in has {
                assert!(release.has(capability), "{release} has {capability:?}");
            }
            for capability in lacks {
                assert!(!release.has(capability), "{release} has no {capability:?}");
            }
        }
    }

    #[test]
    fn a_release_nobody_has_seen_can_do_nothing_special() {
        for text in [
            "",
            "5",
            "main",
            "4.x",
            "4..2",
            ".4",
            "99999999999999999999.1",
        ] {
            let release = Release::parse(text);
            assert!(!release.is_known(), "{text}");
            assert!(!release.has(C::DirectoryQuota), "{text}");
        }
    }
}
