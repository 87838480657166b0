//! The parameters of a StorageClass, parsed once. Volumes keep them in their context, so the names are fixed.

use std::collections::BTreeMap;

use stowage_service::duration;

use crate::options::{OptionError, Options, Vocabulary};
use crate::quota::{Enforcement, UnknownEnforcement};

pub(crate) use backing::{ClassBacking, Encryption, NewFilesystemParameters};

mod backing;

/// The parameter that also a VolumeAttributesClass may set.
pub(crate) const CAPACITY_ENFORCEMENT: &str = "capacityEnforcement";

/// What the provisioner adds, and does not hand on.
const OF_KUBERNETES: &str = "csi.storage.k8s.io/";

/// The parameters of WEKA's driver, also those that mean something to it alone.
const KNOWN: [&str; 15] = [
    "volumeType",
    "filesystemName",
    "filesystemGroupName",
    "initialFilesystemSizeGB",
    CAPACITY_ENFORCEMENT,
    GRACE_PERIOD,
    "permissions",
    "ownerUid",
    "ownerGid",
    "mountOptions",
    "encryptionEnabled",
    "encryptWithoutKms",
    "manageEncryptionKeys",
    "kmsVaultNamespace",
    "kmsVaultKeyIdentifier",
];

/// How long a soft limit may be exceeded.
const GRACE_PERIOD: &str = "quotaGracePeriod";

/// What a volume's directory gets where the class says nothing.
const DEFAULT_PERMISSIONS: u32 = 0o750;

/// Permissions, the set-id bits and the sticky bit.
const ALL_PERMISSIONS: u32 = 0o7777;

/// The kernel's "no such id".
const NO_ID: u32 = u32::MAX;

/// What a class asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) backing: ClassBacking,
    pub(crate) enforcement: Enforcement,
    /// How long a soft limit may be exceeded; 0 is for ever.
    pub(crate) grace_seconds: u64,
    pub(crate) owner: Owner,
    pub(crate) mount_options: Options,
    /// Whether the filesystem must be encrypted.
    pub(crate) encrypted: bool,
}

/// Whose a volume's directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) permissions: u32,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

/// Why parameters cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParameterError {
    #[error("parameter `{0}` is missing: name an existing {1} of the Weka cluster")]
    Missing(&'static str, &'static str),
    #[error("parameter `volumeType` is `{0}`: use `dir/v1`, `weka/v2`, or leave it out")]
    VolumeType(String),
    #[error(
        "parameter `initialFilesystemSizeGB` is `{0}`: write a whole number of gigabytes, at least 1"
    )]
    InitialSize(String),
    #[error(
        "parameter `{GRACE_PERIOD}` is `{0}`: write a duration such as `72h`, `30m` or `1h30m`, in whole seconds"
    )]
    GracePeriod(String),
    #[error(
        "parameter `permissions` is `{0}`: write an octal number such as `0750`, at most `7777`"
    )]
    Permissions(String),
    #[error("parameter `{name}` is `{value}`: write a number from 0 to {}", NO_ID - 1)]
    Id { name: &'static str, value: String },
    #[error("parameter `{name}` is `{value}`: write `true` or `false`")]
    Flag { name: &'static str, value: String },
    #[error("parameter `{CAPACITY_ENFORCEMENT}`: {0}")]
    Enforcement(#[from] UnknownEnforcement),
    #[error("parameter `mountOptions`: {0}")]
    MountOptions(#[from] OptionError),
    #[error("parameter `{name}`: {reason}")]
    Unsupported {
        name: &'static str,
        reason: &'static str,
    },
    #[error("parameter `{0}` cannot be changed: only `{CAPACITY_ENFORCEMENT}` (HARD or SOFT) can")]
    Immutable(String),
}

impl Parameters {
    /// Reads the parameters of a class, and over them those that may change.
    pub(crate) fn parse(
        class: &BTreeMap<String, String>,
        mutable: &BTreeMap<String, String>,
        vocabulary: &Vocabulary,
    ) -> Result<Self, ParameterError> {
        let get = |name: &str| class.get(name).map(|value| value.trim());
        let given = |name: &str| get(name).filter(|value| !value.is_empty());
        if flag(class, "manageEncryptionKeys")? {
            return Err(ParameterError::Unsupported {
                name: "manageEncryptionKeys",
                reason: "this driver does not manage encryption keys; leave it out",
            });
        }
        let enforcement = match enforcement(mutable)? {
            Some(changed) => changed,
            None => given(CAPACITY_ENFORCEMENT)
                .map(str::parse)
                .transpose()?
                .unwrap_or_default(),
        };
        let mount_options = Options::parse(get("mountOptions").unwrap_or_default());
        mount_options.check(vocabulary)?;
        Ok(Self {
            backing: ClassBacking::parse(class)?,
            enforcement,
            grace_seconds: given(GRACE_PERIOD).map_or(Ok(0), grace_seconds)?,
            owner: Owner {
                permissions: given("permissions").map_or(Ok(DEFAULT_PERMISSIONS), permissions)?,
                uid: id(class, "ownerUid")?,
                gid: id(class, "ownerGid")?,
            },
            mount_options,
            encrypted: flag(class, "encryptionEnabled")?,
        })
    }
}

/// The parameters of a class that neither this driver nor WEKA's knows.
pub(crate) fn unknown(class: &BTreeMap<String, String>) -> Vec<&str> {
    let names = class.keys().map(String::as_str);
    names
        .filter(|name| !KNOWN.contains(name) && !name.starts_with(OF_KUBERNETES))
        .collect()
}

/// What a VolumeAttributesClass asks for.
pub(crate) fn enforcement(
    mutable: &BTreeMap<String, String>,
) -> Result<Option<Enforcement>, ParameterError> {
    if let Some(name) = mutable.keys().find(|name| *name != CAPACITY_ENFORCEMENT) {
        let shown = name.chars().flat_map(char::escape_debug).take(60).collect();
        return Err(ParameterError::Immutable(shown));
    }
    let value = mutable.get(CAPACITY_ENFORCEMENT);
    Ok(value.map(|value| value.trim().parse()).transpose()?)
}

/// What the provisioner wrote into a volume's context, of a class that may be gone: how its size is enforced.
pub(crate) fn enforcement_of_volume(
    context: &BTreeMap<String, String>,
) -> Result<(Enforcement, u64), ParameterError> {
    let given = |name: &str| context.get(name).map(|value| value.trim());
    let given = |name: &str| given(name).filter(|value| !value.is_empty());
    let enforcement = given(CAPACITY_ENFORCEMENT).map(str::parse).transpose()?;
    let grace_seconds = given(GRACE_PERIOD).map_or(Ok(0), grace_seconds)?;
    Ok((enforcement.unwrap_or_default(), grace_seconds))
}

fn grace_seconds(text: &str) -> Result<u64, ParameterError> {
    let error = || ParameterError::GracePeriod(shown(text));
    let period = duration::parse(text).map_err(|_| error())?;
    let whole = period.subsec_nanos() == 0;
    whole.then_some(period.as_secs()).ok_or_else(error)
}

/// Always octal, with or without a leading `0` or `0o`: `775` meaning decimal 775 has surprised enough people.
fn permissions(text: &str) -> Result<u32, ParameterError> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let octal = digits.bytes().all(|byte| byte.is_ascii_digit());
    u32::from_str_radix(digits, 8)
        .ok()
        .filter(|&mode| octal && mode <= ALL_PERMISSIONS)
        .ok_or_else(|| ParameterError::Permissions(shown(text)))
}

fn id(
    parameters: &BTreeMap<String, String>,
    name: &'static str,
) -> Result<Option<u32>, ParameterError> {
    let Some(value) = parameters.get(name).map(|value| value.trim()) else {
        return Ok(None);
    };
    if value.is_empty() {
        return Ok(None);
    }
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|&id| digits && id != NO_ID);
    number.map(Some).ok_or_else(|| ParameterError::Id {
        name,
        value: shown(value),
    })
}

fn flag(parameters: &BTreeMap<String, String>, name: &'static str) -> Result<bool, ParameterError> {
    match parameters.get(name).map(|value| value.trim()) {
        None | Some("" | "false") => Ok(false),
        Some("true") => Ok(true),
        Some(value) => Err(ParameterError::Flag {
            name,
            value: shown(value),
        }),
    }
}

fn shown(text: &str) -> String {
    text.chars().flat_map(char::escape_debug).take(60).collect()
}

#[cfg(test)]
mod tests;
