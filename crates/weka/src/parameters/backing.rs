//! What a class wants its volumes to be.

use std::collections::BTreeMap;

use super::{ParameterError, flag, shown};

/// The value of `volumeType` for volumes that are directories.
const DIRECTORY_TYPE: &str = "dir/v1";

const GIGABYTE: u64 = 1_000_000_000;

/// What the volumes of a class are, unless they are copies: those are what their source is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClassBacking {
    /// Directories of this filesystem.
    Directory(String),
    /// Snapshots of this filesystem.
    Snapshot(String),
    /// Filesystems of their own.
    Filesystem(NewFilesystemParameters),
}

/// How filesystems are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewFilesystemParameters {
    pub(crate) group: String,
    /// The smallest one that is made.
    pub(crate) least_bytes: u64,
    pub(crate) encryption: Encryption,
}

/// How a new filesystem is encrypted, if it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Encryption {
    pub(crate) without_kms: bool,
    pub(crate) key: Option<String>,
    pub(crate) namespace: Option<String>,
}

impl ClassBacking {
    pub(super) fn parse(class: &BTreeMap<String, String>) -> Result<Self, ParameterError> {
        let get = |name: &str| class.get(name).map(|value| value.trim());
        let given = |name: &str| get(name).filter(|value| !value.is_empty());
        if get("filesystemGroupName") == Some("") {
            return Err(ParameterError::Unsupported {
                name: "filesystemGroupName",
                reason: "it is empty; name a group or leave it out",
            });
        }
        let kind = given("volumeType");
        if let Some(kind) = kind.filter(|kind| !is_type(kind)) {
            return Err(ParameterError::VolumeType(shown(kind)));
        }
        let filesystem = given("filesystemName").map(str::to_owned);
        match (kind, filesystem) {
            (Some(DIRECTORY_TYPE), Some(filesystem)) => Ok(Self::Directory(filesystem)),
            (Some(DIRECTORY_TYPE), None) => {
                Err(ParameterError::Missing("filesystemName", "filesystem"))
            }
            (_, Some(filesystem)) => Ok(Self::Snapshot(filesystem)),
            (_, None) => NewFilesystemParameters::parse(class).map(Self::Filesystem),
        }
    }

    /// The filesystem that a class names.
    pub(crate) fn filesystem(&self) -> Option<&str> {
        match self {
            Self::Directory(filesystem) | Self::Snapshot(filesystem) => Some(filesystem),
            Self::Filesystem(_) => None,
        }
    }
}

/// A name, a slash, and a version: `weka/v2`.
fn is_type(text: &str) -> bool {
    let parts = text.split_once('/');
    parts.is_some_and(|(name, version)| !name.is_empty() && version.starts_with('v'))
}

impl NewFilesystemParameters {
    fn parse(class: &BTreeMap<String, String>) -> Result<Self, ParameterError> {
        let given = |name: &str| class.get(name).map(|value| value.trim());
        let given = |name: &str| given(name).filter(|value| !value.is_empty());
        let group = given("filesystemGroupName").ok_or(ParameterError::Missing(
            "filesystemGroupName",
            "filesystem group (or, for volumes within a filesystem, set `filesystemName`)",
        ))?;
        Ok(Self {
            group: group.to_owned(),
            least_bytes: given("initialFilesystemSizeGB").map_or(Ok(0), least_bytes)?,
            encryption: Encryption {
                without_kms: flag(class, "encryptWithoutKms")?,
                key: given("kmsVaultKeyIdentifier").map(str::to_owned),
                namespace: given("kmsVaultNamespace").map(str::to_owned),
            },
        })
    }
}

fn least_bytes(text: &str) -> Result<u64, ParameterError> {
    let number = text.parse::<u64>().ok().filter(|&number| number > 0);
    let bytes = number.and_then(|number| number.checked_mul(GIGABYTE));
    bytes.ok_or_else(|| ParameterError::InitialSize(shown(text)))
}
