//! Identities that the array gives: `volume-00000001`, `cg-00000001`, `srv-00000001`.
//!
//! They become parts of paths, so nothing is taken for one that could lead elsewhere.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest identity.
const LONGEST: usize = 64;

/// Not an identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an identity that an array gives")]
pub struct IdError(String);

fn check(text: &str) -> Result<(), IdError> {
    let fits = (1..=LONGEST).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if fits {
        return Ok(());
    }
    let shown = text.chars().flat_map(char::escape_debug);
    Err(IdError(shown.take(LONGEST).collect()))
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The identity as the array writes it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                check(&text)?;
                Ok(Self(text))
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    )+};
}

ids! {
    /// A volume.
    VolumeId,
    /// A consistency group: every volume has one, and snapshots and clones go by it.
    CgId,
    /// A pool.
    PoolId,
    /// A Server record: a host that volumes are attached to.
    ServerId,
    /// A snapshot.
    SnapshotId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_leads_elsewhere_is_an_identity() {
        for text in ["volume-00000001", "RaidGroup-1", "vsa-00000001-vc-0"] {
            assert_eq!(text.parse::<VolumeId>().unwrap().as_str(), text);
        }
        let long = "x".repeat(65);
        for text in [
            "",
            "..",
            "a/b",
            "a?b",
            "a b",
            "volume-1.json",
            "ä",
            long.as_str(),
        ] {
            assert!(text.parse::<VolumeId>().is_err(), "{text}");
            assert!(
                serde_json::from_value::<CgId>(text.into()).is_err(),
                "{text}"
            );
        }
    }
}
