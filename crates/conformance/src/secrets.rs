//! Credentials for the driver, by call. They are sent and never shown.

use std::collections::BTreeMap;
use std::fmt;

/// Shorter values are not looked for in messages: replacing every `a` would make them unreadable.
const SHORTEST_HIDDEN: usize = 4;

/// Calls that take secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SecretKind {
    CreateVolume,
    DeleteVolume,
    ControllerPublish,
    ControllerUnpublish,
    Validate,
    NodeStage,
    NodePublish,
    NodeExpand,
    CreateSnapshot,
    DeleteSnapshot,
    ListSnapshots,
    GetSnapshot,
    ControllerExpand,
    Modify,
    CreateGroupSnapshot,
    DeleteGroupSnapshot,
    GetGroupSnapshot,
}

/// The keys of a secrets file: csi-sanity's where it has one, so that existing files work.
const KEYS: [(&str, SecretKind); 17] = [
    ("CreateVolumeSecret", SecretKind::CreateVolume),
    ("DeleteVolumeSecret", SecretKind::DeleteVolume),
    (
        "ControllerPublishVolumeSecret",
        SecretKind::ControllerPublish,
    ),
    (
        "ControllerUnpublishVolumeSecret",
        SecretKind::ControllerUnpublish,
    ),
    (
        "ControllerValidateVolumeCapabilitiesSecret",
        SecretKind::Validate,
    ),
    ("NodeStageVolumeSecret", SecretKind::NodeStage),
    ("NodePublishVolumeSecret", SecretKind::NodePublish),
    ("NodeExpandVolumeSecret", SecretKind::NodeExpand),
    ("CreateSnapshotSecret", SecretKind::CreateSnapshot),
    ("DeleteSnapshotSecret", SecretKind::DeleteSnapshot),
    ("ListSnapshotsSecret", SecretKind::ListSnapshots),
    ("GetSnapshotSecret", SecretKind::GetSnapshot),
    ("ControllerExpandVolumeSecret", SecretKind::ControllerExpand),
    ("ControllerModifyVolumeSecret", SecretKind::Modify),
    (
        "CreateVolumeGroupSnapshotSecret",
        SecretKind::CreateGroupSnapshot,
    ),
    (
        "DeleteVolumeGroupSnapshotSecret",
        SecretKind::DeleteGroupSnapshot,
    ),
    ("GetVolumeGroupSnapshotSecret", SecretKind::GetGroupSnapshot),
];

/// Secrets by call.
#[derive(Clone, Default)]
pub struct Secrets(BTreeMap<SecretKind, BTreeMap<String, String>>);

/// A key of a secrets file that no call has.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{key}` is not a kind of secret: use one of {}", known_keys())]
pub struct UnknownSecretKind {
    key: String,
}

fn known_keys() -> String {
    KEYS.map(|(key, _)| key).join(", ")
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "{}" } else { "***" })
    }
}

impl Secrets {
    /// Takes what a secrets file holds.
    pub(crate) fn parse(
        file: BTreeMap<String, BTreeMap<String, String>>,
    ) -> Result<Self, UnknownSecretKind> {
        let mut secrets = BTreeMap::new();
        for (key, values) in file {
            let Some((_, kind)) = KEYS.iter().find(|(known, _)| *known == key) else {
                return Err(UnknownSecretKind { key });
            };
            secrets.insert(*kind, values);
        }
        Ok(Self(secrets))
    }

    /// What to send with a call.
    pub(crate) fn of(&self, kind: SecretKind) -> BTreeMap<String, String> {
        self.0.get(&kind).cloned().unwrap_or_default()
    }

    /// The text without any of the values: drivers have been seen to repeat a request in an error message.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut values: Vec<_> = self.0.values().flat_map(BTreeMap::values).collect();
        // The longest first: a value may be part of another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values
            .into_iter()
            .filter(|value| value.len() >= SHORTEST_HIDDEN)
            .fold(text.to_owned(), |text, value| text.replace(value, "***"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let values = [("user", "admin"), ("password", "admin-hunter2"), ("n", "7")];
        let values = values.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let file = [("DeleteVolumeSecret".to_owned(), values.into())];
        Secrets::parse(file.into()).unwrap()
    }

    #[test]
    fn a_call_gets_its_own_secrets_only() {
        assert_eq!(secrets().of(SecretKind::DeleteVolume).len(), 3);
        assert!(secrets().of(SecretKind::CreateVolume).is_empty());
    }

    #[test]
    fn values_are_hidden_wherever_they_turn_up() {
        assert_eq!(format!("{:?}", secrets()), "***");
        assert_eq!(
            secrets().hide("login admin with admin-hunter2 failed 7 times"),
            "login *** with *** failed 7 times"
        );
    }

    #[test]
    fn an_unknown_kind_is_named_with_the_known_ones() {
        let file = [("DeleteVolumeSecrets".to_owned(), BTreeMap::new())];
        let error = Secrets::parse(file.into()).unwrap_err().to_string();
        assert!(error.starts_with("`DeleteVolumeSecrets` is not a kind of secret"));
        assert!(error.contains("DeleteVolumeSecret,"), "{error}");
    }
}
