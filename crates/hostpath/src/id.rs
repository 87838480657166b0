//! Names of things: nodes, volumes, snapshots. Whatever a caller sends is parsed here, once, and only what this
//! driver can have made comes through: a file name is built from a [`Key`] or a [`NodeId`] and from nothing else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Longest value of a topology segment and of a label, which the name of a node becomes.
const LONGEST_NODE: usize = 63;

/// How many digits a [`Key`] has: 128 bits, so that two names never meet.
const KEY_DIGITS: usize = 32;

/// A node, by a name that is also a topology value, a label value and a file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct NodeId(String);

/// A text that is not a valid node id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is not a valid node id: use 1 to {LONGEST_NODE} letters, digits, `-`, `_` or `.`, starting and ending with a letter or digit"
)]
pub struct NodeIdError(String);

impl FromStr for NodeId {
    type Err = NodeIdError;

    fn from_str(text: &str) -> Result<Self, NodeIdError> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let bytes = text.as_bytes();
        let ends_well = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let fits = bytes.len() <= LONGEST_NODE
            && ends_well(bytes.first())
            && ends_well(bytes.last())
            && bytes.iter().copied().all(inner);
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            // Hostile texts may be long.
            Err(NodeIdError(text.chars().take(LONGEST_NODE + 1).collect()))
        }
    }
}

impl TryFrom<String> for NodeId {
    type Error = NodeIdError;

    fn try_from(text: String) -> Result<Self, NodeIdError> {
        text.parse()
    }
}

impl From<NodeId> for String {
    fn from(node: NodeId) -> Self {
        node.0
    }
}

impl NodeId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the files of a volume, snapshot or group are called: the hash of its name, so that it is found by name and by id
/// with one look and without an index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(String);

impl Key {
    /// The key of whatever has this name.
    pub(crate) fn of_name(name: &str) -> Self {
        let digest = Sha256::digest(name.as_bytes());
        let mut digits = String::with_capacity(KEY_DIGITS);
        for byte in digest.iter().take(KEY_DIGITS / 2) {
            for half in [byte >> 4, byte & 0xf] {
                digits.extend(char::from_digit(half.into(), 16));
            }
        }
        Self(digits)
    }

    /// A key as it is written in file names, ids and paging tokens.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let fits = text.len() == KEY_DIGITS && text.bytes().all(is_digit);
        fits.then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an id stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Volume,
    Snapshot,
    Group,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Volume => "vol-",
            Self::Snapshot => "snap-",
            Self::Group => "group-",
        }
    }
}

/// The id of what this driver made on some node: `vol-<key>-<node>`, `snap-<key>-<node>`, `group-<key>-<node>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    pub(crate) node: NodeId,
}

impl Id {
    /// None for ids that this driver never gave out.
    pub(crate) fn parse(kind: Kind, text: &str) -> Option<Self> {
        let (key, node) = text
            .strip_prefix(kind.prefix())?
            .split_at_checked(KEY_DIGITS)?;
        Some(Self {
            kind,
            key: Key::parse(key)?,
            node: node.strip_prefix('-')?.parse().ok()?,
        })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}-{}", self.kind.prefix(), self.key, self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> NodeId {
        text.parse().unwrap()
    }

    #[test]
    fn an_id_is_read_back_as_it_was_written() {
        for kind in [Kind::Volume, Kind::Snapshot, Kind::Group] {
            let longest = "n".repeat(LONGEST_NODE);
            for name in ["worker-1", "10.0.0.1", "a", &longest] {
                let id = Id {
                    kind,
                    key: Key::of_name(name),
                    node: node(name),
                };
                let text = id.to_string();
                assert!(text.len() <= 128, "{text}");
                assert_eq!(Id::parse(kind, &text), Some(id));
            }
        }
    }

    #[test]
    fn ids_of_others_are_not_ours() {
        let key = Key::of_name("x");
        let hostile = [
            String::new(),
            "fake-vol-id".to_owned(),
            "fake-vol-id-0123456789".to_owned(),
            format!("csi-{}", "0".repeat(64)),
            "../../etc/passwd".to_owned(),
            format!("vol-{key}-../../etc"),
            format!("vol-{key}-"),
            format!("vol-{key}"),
            format!("vol-{key}-node\0"),
            format!("vol-{}-node", key.as_str().to_uppercase()),
            format!("vol-{}-node", "é".repeat(16)),
            format!("vol-{key}-nöde"),
            format!("vol-{key}-{}", "n".repeat(LONGEST_NODE + 1)),
            format!("snap-{key}-node"),
            "x".repeat(10_000),
        ];
        for text in hostile {
            assert_eq!(Id::parse(Kind::Volume, &text), None, "{text:?}");
        }
    }

    #[test]
    fn a_node_is_named_like_a_label() {
        for text in ["", "-a", "a-", ".", "..", "a/b", "a b", "é", "a\0"] {
            assert!(text.parse::<NodeId>().is_err(), "{text:?}");
        }
        let error = "x".repeat(10_000).parse::<NodeId>().unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
    }

    #[test]
    fn a_key_is_half_of_the_hash_of_the_name() {
        assert_eq!(
            Key::of_name("").as_str(),
            "e3b0c44298fc1c149afbf4c8996fb924"
        );
        assert_ne!(Key::of_name("a"), Key::of_name("A"));
    }
}
