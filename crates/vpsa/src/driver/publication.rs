//! What a controller tells a node about an attached volume. The secret of logins is encrypted: Kubernetes keeps this where
//! many can read it.

use std::collections::BTreeMap;

use stowage_api::vpsa::Concealed;

/// Says that nothing can be written; not there otherwise.
const READ_ONLY: &str = "readOnly";

/// An attached volume, as a node reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// A share.
    Nfs(Share),
    /// A disk.
    Iscsi(Iscsi),
}

/// A share, as a node reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Such as `10.10.10.10:/export/name`.
    pub path: String,
    /// The array takes nothing that is written. Of a disk its VolumeAttachment says so.
    pub read_only: bool,
}

/// A disk, as a node reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iscsi {
    /// The name of the VPSA, to which the secret is bound.
    pub array: String,
    /// Addresses of the array.
    pub portals: Vec<String>,
    /// The iSCSI target, when the volume was published.
    pub target: String,
    /// The number of the disk for this node, when the volume was published.
    pub lun: u64,
    /// User of logins.
    pub chap_user: String,
    /// Secret of logins, encrypted.
    pub chap_secret: Concealed,
}

/// Why a node does not understand what it is told.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("publish_context has no valid `{0}`: was the volume attached by another driver?")]
pub struct PublicationError(&'static str);

impl From<Publication> for BTreeMap<String, String> {
    fn from(publication: Publication) -> Self {
        let fields: Vec<(&str, String)> = match publication {
            Publication::Nfs(Share { path, read_only }) => {
                let read_only = read_only.then(|| (READ_ONLY, true.to_string()));
                [("share", path)].into_iter().chain(read_only).collect()
            }
            Publication::Iscsi(disk) => vec![
                ("vpsa", disk.array),
                ("portals", disk.portals.join(",")),
                ("target", disk.target),
                ("lun", disk.lun.to_string()),
                ("chapUser", disk.chap_user),
                ("chapSecret", disk.chap_secret.expose().to_owned()),
            ],
        };
        let fields = fields.into_iter();
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

impl TryFrom<&BTreeMap<String, String>> for Publication {
    type Error = PublicationError;

    fn try_from(context: &BTreeMap<String, String>) -> Result<Self, PublicationError> {
        let field = |name: &'static str| {
            let value = context.get(name).filter(|value| !value.is_empty());
            value.cloned().ok_or(PublicationError(name))
        };
        if context.contains_key("share") {
            return Ok(Self::Nfs(Share {
                path: field("share")?,
                read_only: context.get(READ_ONLY).is_some_and(|it| it == "true"),
            }));
        }
        Ok(Self::Iscsi(Iscsi {
            array: field("vpsa")?,
            portals: field("portals")?.split(',').map(str::to_owned).collect(),
            target: field("target")?,
            lun: field("lun")?.parse().map_err(|_| PublicationError("lun"))?,
            chap_user: field("chapUser")?,
            chap_secret: field("chapSecret")?.into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_reads_what_a_controller_wrote() {
        let disk = Publication::Iscsi(Iscsi {
            array: "a".to_owned(),
            portals: vec!["10.0.0.1".to_owned(), "fd00::1".to_owned()],
            target: "iqn.t".to_owned(),
            lun: 3,
            chap_user: "u".to_owned(),
            chap_secret: "AES2:x".to_owned().into(),
        });
        let share = |read_only| {
            Publication::Nfs(Share {
                path: "10.0.0.1:/export/x".to_owned(),
                read_only,
            })
        };
        for publication in [disk, share(true), share(false)] {
            let context = BTreeMap::from(publication.clone());
            assert_eq!(Publication::try_from(&context), Ok(publication));
        }
        let nothing = Publication::try_from(&BTreeMap::new()).unwrap_err();
        assert!(nothing.to_string().contains("`vpsa`"), "{nothing}");
    }
}
