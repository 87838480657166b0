//! The parameters of a StorageClass, parsed once. Volumes keep them in their context, so the names are fixed.

use std::collections::BTreeMap;

use crate::options::{OptionError, Options, Vocabulary};
use crate::quota::{Enforcement, UnknownEnforcement};

/// The parameter that also a VolumeAttributesClass may set.
pub(crate) const CAPACITY_ENFORCEMENT: &str = "capacityEnforcement";

/// The value of `volumeType` for volumes that are directories.
pub(crate) const DIRECTORY_TYPE: &str = "dir/v1";

/// What the provisioner adds, and does not hand on.
const OF_KUBERNETES: &str = "csi.storage.k8s.io/";

/// The parameters of WEKA's driver, also those that mean something to it alone.
const KNOWN: [&str; 15] = [
    "volumeType",
    "filesystemName",
    "filesystemGroupName",
    "initialFilesystemSizeGB",
    CAPACITY_ENFORCEMENT,
    "quotaGracePeriod",
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

/// What a volume's directory gets where the class says nothing.
const DEFAULT_PERMISSIONS: u32 = 0o750;

/// Permissions, the set-id bits and the sticky bit.
const ALL_PERMISSIONS: u32 = 0o7777;

/// The kernel's "no such id".
const NO_ID: u32 = u32::MAX;

/// What a class asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) filesystem: String,
    pub(crate) enforcement: Enforcement,
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
    #[error("parameter `{0}` is missing: name an existing filesystem of the Weka cluster")]
    Missing(&'static str),
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
        check_backing(given("volumeType"), given("filesystemName"))?;
        let filesystem =
            given("filesystemName").ok_or(ParameterError::Missing("filesystemName"))?;
        if get("filesystemGroupName") == Some("") {
            return Err(ParameterError::Unsupported {
                name: "filesystemGroupName",
                reason: "it is empty; name a group or leave it out",
            });
        }
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
            filesystem: filesystem.to_owned(),
            enforcement,
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

/// Other backings are named, so that nobody gets a directory who asked for a filesystem.
fn check_backing(kind: Option<&str>, filesystem: Option<&str>) -> Result<(), ParameterError> {
    let reason = match (kind, filesystem) {
        (Some(DIRECTORY_TYPE), _) => return Ok(()),
        (_, None) => {
            "volumes backed by a filesystem of their own are not supported; use `volumeType: dir/v1` with `filesystemName`"
        }
        (None, Some(_)) => {
            "it is missing, which means volumes backed by snapshots; these are not supported, use `dir/v1`"
        }
        (Some(_), Some(_)) => "volumes backed by snapshots are not supported; use `dir/v1`",
    };
    Err(ParameterError::Unsupported {
        name: "volumeType",
        reason,
    })
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
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        entries.iter().map(owned).collect()
    }

    fn parse(more: &[(&str, &str)]) -> Result<Parameters, ParameterError> {
        let mut class = map(&[("volumeType", "dir/v1"), ("filesystemName", "default")]);
        class.extend(map(more));
        Parameters::parse(&class, &BTreeMap::new(), &Vocabulary::default())
    }

    #[test]
    fn a_class_that_says_little_gets_sane_defaults() {
        let parameters = parse(&[]).unwrap();
        assert_eq!(parameters.filesystem, "default");
        assert_eq!(parameters.enforcement, Enforcement::Hard);
        let owner = Owner {
            permissions: 0o750,
            uid: None,
            gid: None,
        };
        assert_eq!(parameters.owner, owner);
        assert!(!parameters.encrypted);
    }

    #[test]
    fn permissions_are_octal_however_they_are_written() {
        for (text, mode) in [
            ("0775", 0o775),
            ("775", 0o775),
            ("0o775", 0o775),
            ("2770", 0o2770),
            ("01777", 0o1777),
            ("0", 0),
        ] {
            let owner = parse(&[("permissions", text)]).unwrap().owner;
            assert_eq!(owner.permissions, mode, "{text}");
        }
        for text in [
            "abc",
            "0789",
            "-1",
            "+7",
            "17777",
            "rwxr-x---",
            "0x1ff",
            "7 7",
        ] {
            let error = parse(&[("permissions", text)]).unwrap_err();
            assert_eq!(error, ParameterError::Permissions(text.to_owned()));
        }
    }

    #[test]
    fn owners_are_numbers_within_range() {
        let owner = parse(&[("ownerUid", "1001"), ("ownerGid", "4294967294")])
            .unwrap()
            .owner;
        assert_eq!((owner.uid, owner.gid), (Some(1001), Some(4_294_967_294)));
        for value in ["-1", "4294967295", "4294967296", "root", "1e3", "+1"] {
            let error = parse(&[("ownerUid", value)]).unwrap_err();
            assert!(error.to_string().contains("`ownerUid`"), "{error}");
        }
    }

    #[test]
    fn enforcement_is_one_of_two_words_and_may_change() {
        let class = map(&[
            ("volumeType", "dir/v1"),
            ("filesystemName", "fs"),
            ("capacityEnforcement", "SOFT"),
        ]);
        let soft = Parameters::parse(&class, &BTreeMap::new(), &Vocabulary::default()).unwrap();
        assert_eq!(soft.enforcement, Enforcement::Soft);
        let over = map(&[("capacityEnforcement", "HARD")]);
        let hard = Parameters::parse(&class, &over, &Vocabulary::default()).unwrap();
        assert_eq!(hard.enforcement, Enforcement::Hard);
        assert!(parse(&[("capacityEnforcement", "hard")]).is_err());
        let other = enforcement(&map(&[("permissions", "0777")])).unwrap_err();
        assert!(
            other
                .to_string()
                .starts_with("parameter `permissions` cannot be changed"),
            "{other}"
        );
    }

    #[test]
    fn other_backings_are_refused_by_name() {
        for class in [
            map(&[("filesystemGroupName", "default")]),
            map(&[("filesystemName", "fs")]),
            map(&[("filesystemName", "fs"), ("volumeType", "weka/v2")]),
        ] {
            let error = Parameters::parse(&class, &BTreeMap::new(), &Vocabulary::default());
            assert!(
                error.unwrap_err().to_string().contains("dir/v1"),
                "{class:?}"
            );
        }
        let nameless = map(&[("volumeType", "dir/v1")]);
        let error = Parameters::parse(&nameless, &BTreeMap::new(), &Vocabulary::default());
        assert_eq!(error, Err(ParameterError::Missing("filesystemName")));
        assert!(parse(&[("manageEncryptionKeys", "true")]).is_err());
        assert!(parse(&[("encryptionEnabled", "yes")]).is_err());
        assert!(parse(&[("mountOptions", "writecache,no_such_option")]).is_err());
    }
}
