//! Versions of VPSA, and what each brought.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A version such as `22.06-sp1-123`; `00.00-...` are builds of developers, which have everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Release {
    text: String,
    rank: (u32, u32, u32),
}

/// The first and the last version that can be played, by year and month. The driver needs 20.12-sp2; older ones are
/// played to be refused.
const FIRST: (u32, u32) = (19, 8);
const LAST: (u32, u32) = (23, 9);

/// A text that is not a version that can be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// No version looks like this.
    #[error("`{0}` is not a VPSA version: write it as `22.06-sp1-123`")]
    Unreadable(String),
    /// Nobody knows what it can do.
    #[error("VPSA {0} cannot be played: only 19.08 to 23.09, and 00.00, are known")]
    Unknown(String),
}

/// What a version may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `message` in an error, which was `status_msg` before.
    Message,
    /// Numbers in answers, which were texts before.
    Numbers,
    /// Moments as `2015-10-27T15:00:16+00:00`, which were `2015-10-27 15:00:16 UTC` before.
    IsoMoments,
    /// Targets as `iqn.2011-04.com.zadara:...:<hex>:1`, which were `iqn.2011-04.com.zadarastorage:...:1` before.
    LongTargets,
}

impl Feature {
    fn since(self) -> (u32, u32, u32) {
        match self {
            Self::Message => (20, 12, 0),
            Self::Numbers | Self::IsoMoments => (22, 6, 0),
            Self::LongTargets => (23, 3, 0),
        }
    }
}

impl Release {
    /// Whether it has something.
    pub fn has(&self, feature: Feature) -> bool {
        let (year, month, _) = self.rank;
        (year, month) == (0, 0) || self.rank >= feature.since()
    }
}

impl FromStr for Release {
    type Err = ReleaseError;

    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        let unreadable = || ReleaseError::Unreadable(text.to_owned());
        let mut parts = text.split('-');
        let first = parts.next().and_then(|first| first.split_once('.'));
        let (year, month) = first.ok_or_else(unreadable)?;
        let number = |digits: &str| match digits.len() {
            2 => digits.parse::<u32>().ok(),
            _ => None,
        };
        let year = number(year).ok_or_else(unreadable)?;
        let month = number(month)
            .filter(|month| *month <= 12)
            .ok_or_else(unreadable)?;
        let mut pack = 0;
        for part in parts {
            let (target, digits) = match part.strip_prefix("sp") {
                Some(digits) => (Some(&mut pack), digits),
                None => (None, part),
            };
            let number = digits.parse().map_err(|_| unreadable())?;
            if let Some(target) = target {
                *target = number;
            }
        }
        let plain = (year, month);
        if plain != (0, 0) && !(FIRST..=LAST).contains(&plain) {
            return Err(ReleaseError::Unknown(text.to_owned()));
        }
        Ok(Self {
            text: text.to_owned(),
            rank: (year, month, pack),
        })
    }
}

impl TryFrom<String> for Release {
    type Error = ReleaseError;

    fn try_from(text: String) -> Result<Self, ReleaseError> {
        text.parse()
    }
}

impl From<Release> for String {
    fn from(release: Release) -> Self {
        release.text
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_what_they_brought_and_only_known_ones_are_played() {
        for (text, message, numbers, long) in [
            ("19.08-1", false, false, false),
            ("20.12-sp2-240", true, false, false),
            ("22.06-1000", true, true, false),
            ("23.03-sp1-1", true, true, true),
            ("23.09", true, true, true),
            ("00.00-2979", true, true, true),
        ] {
            let release: Release = text.parse().unwrap();
            assert_eq!(release.has(Feature::Message), message, "{text}");
            assert_eq!(release.has(Feature::Numbers), numbers, "{text}");
            assert_eq!(release.has(Feature::LongTargets), long, "{text}");
            assert_eq!(release.to_string(), text);
        }
        for text in ["24.01", "18.11", "99.12"] {
            let refused = text.parse::<Release>();
            assert_eq!(refused, Err(ReleaseError::Unknown(text.to_owned())));
        }
        for text in ["", "23", "23.9", "23.13", "x", "23.09-spx", "23.09-beta"] {
            let refused = text.parse::<Release>();
            assert_eq!(refused, Err(ReleaseError::Unreadable(text.to_owned())));
        }
    }
}
