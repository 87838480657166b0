//! What runs on an array: `20.12-sp2-240`, `22.06-1000`, `22.06-sp1`, and `00.00-2979` for builds of developers.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The oldest version that the driver works with.
pub const OLDEST: (u32, u32, u32) = (20, 12, 2);
/// The first version that can be told that it is managed from outside.
pub const EXTERNALLY_MANAGED: (u32, u32, u32) = (23, 3, 0);

/// A version: year, month, service pack. The build is shown and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    year: u32,
    month: u32,
    service_pack: u32,
    shown: String,
}

/// Not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version: it must look like 22.06-sp1-123")]
pub struct VersionError(String);

impl Version {
    /// Whether it is as new as `since`, as (year, month, service pack). Builds of developers are newer than everything.
    pub fn is_at_least(&self, since: (u32, u32, u32)) -> bool {
        self.is_development() || (self.year, self.month, self.service_pack) >= since
    }

    /// Whether the driver works with it.
    pub fn is_supported(&self) -> bool {
        self.is_at_least(OLDEST)
    }

    /// Whether it lacks the setting "externally managed".
    pub fn is_legacy(&self) -> bool {
        !self.is_at_least(EXTERNALLY_MANAGED)
    }

    fn is_development(&self) -> bool {
        (self.year, self.month) == (0, 0)
    }

    fn rank(&self) -> (bool, u32, u32, u32) {
        let Self {
            year,
            month,
            service_pack,
            ..
        } = self;
        (self.is_development(), *year, *month, *service_pack)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.rank().cmp(&other.rank()))
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let wrong = || VersionError(text.chars().take(40).collect());
        let mut parts = text.trim().split('-');
        let (year, month) = parts
            .next()
            .and_then(|first| first.split_once('.'))
            .ok_or_else(wrong)?;
        let number = |digits: &str| {
            let plain =
                (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        let service_pack = parts
            .find_map(|part| part.strip_prefix("sp").or_else(|| part.strip_prefix("SP")))
            .map_or(Some(0), |digits| digits.parse().ok());
        Ok(Self {
            year: number(year).ok_or_else(wrong)?,
            month: number(month).ok_or_else(wrong)?,
            service_pack: service_pack.ok_or_else(wrong)?,
            shown: text.trim().to_owned(),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_read_and_compared() {
        let rising = [
            "19.08",
            "20.12",
            "20.12-sp1-100",
            "20.12-sp2-240",
            "22.06-1000",
            "22.06-sp1-123",
            "23.03-1",
            "23.09-sp2",
            "00.00-2979",
        ];
        for pair in rising.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
        for text in rising {
            assert_eq!(version(text).to_string(), text);
        }
        for text in ["", "20", "20.x", "twenty.12", "20.123", "-", "22.06-spx"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_supported_begins_with_20_12_sp2_and_includes_builds_of_developers() {
        for (text, supported, legacy) in [
            ("20.12", false, true),
            ("20.12-sp1-500", false, true),
            ("20.12-sp2", true, true),
            ("23.02-9", true, true),
            ("23.03-1", true, false),
            ("00.00-2979", true, false),
        ] {
            assert_eq!(version(text).is_supported(), supported, "{text}");
            assert_eq!(version(text).is_legacy(), legacy, "{text}");
        }
    }
}
