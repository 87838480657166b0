//! The name of a driver, as the specification allows it.
//!
//! It becomes part of file names, of objects' names and of metrics, so nothing else may get in.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest name of a driver.
pub const LONGEST: usize = 63;

/// How much of a wrong name is worth showing.
const SHOWN: usize = 80;

/// A driver's name that is known to be valid. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DriverName(Arc<str>);

/// Not the name of a driver.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{}` is not a valid CSI driver name: use 1 to {LONGEST} letters, digits, `-` or `.`, starting and ending with a \
     letter or digit",
    .0.escape_debug().take(SHOWN).collect::<String>()
)]
pub struct InvalidName(pub String);

impl DriverName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DriverName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        let ends_well = |end: Option<char>| end.is_some_and(|c| c.is_ascii_alphanumeric());
        let valid = name.len() <= LONGEST
            && ends_well(name.chars().next())
            && ends_well(name.chars().next_back())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
        if valid {
            Ok(Self(name.into()))
        } else {
            Err(InvalidName(name.to_owned()))
        }
    }
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_drivers_have_them_are_taken() {
        for name in [
            "x",
            "csi-hostpath",
            "hostpath.csi.k8s.io",
            "CSI.Example.1",
            &"x".repeat(63),
        ] {
            assert_eq!(name.parse::<DriverName>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn what_could_become_another_path_or_label_is_refused() {
        for name in [
            "",
            ".",
            "-x",
            "x.",
            "../x",
            "a/b",
            "a b",
            "a_b",
            "ä",
            "a\0b",
            &"x".repeat(64),
        ] {
            assert_eq!(
                name.parse::<DriverName>(),
                Err(InvalidName(name.to_owned()))
            );
        }
    }

    #[test]
    fn a_huge_or_unprintable_name_makes_a_readable_message() {
        let message = InvalidName(format!("\u{1b}[31m\n{}", "x".repeat(10_000))).to_string();
        assert!(message.len() < 300, "{message}");
        assert!(!message.contains(['\u{1b}', '\n']), "{message}");
    }
}
