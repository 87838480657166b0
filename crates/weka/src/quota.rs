//! How a volume's size is written into a quota, and read back.

use std::fmt;
use std::str::FromStr;

/// The hard limit of a volume whose size is advice only: the array has no word for "none".
const UNLIMITED: u64 = i64::MAX.unsigned_abs();

/// What happens to a writer at the end of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Enforcement {
    /// It is refused.
    #[default]
    Hard,
    /// It goes on, and the array raises an alert.
    Soft,
}

/// Neither of the two.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a valid value: use HARD or SOFT", .0.chars().flat_map(char::escape_debug).take(60).collect::<String>())]
pub(crate) struct UnknownEnforcement(String);

impl FromStr for Enforcement {
    type Err = UnknownEnforcement;

    fn from_str(text: &str) -> Result<Self, UnknownEnforcement> {
        match text {
            "HARD" => Ok(Self::Hard),
            "SOFT" => Ok(Self::Soft),
            other => Err(UnknownEnforcement(other.to_owned())),
        }
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hard => "HARD",
            Self::Soft => "SOFT",
        })
    }
}

/// The size of a volume and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) enforcement: Enforcement,
}

/// The two numbers of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) hard_bytes: u64,
    pub(crate) soft_bytes: u64,
}

impl From<Size> for Limits {
    fn from(size: Size) -> Self {
        Self {
            hard_bytes: match size.enforcement {
                Enforcement::Hard => size.bytes,
                Enforcement::Soft => UNLIMITED,
            },
            soft_bytes: size.bytes,
        }
    }
}

impl From<Limits> for Size {
    /// Quotas of other hands are read, too: a hard limit without a soft one is a hard one.
    fn from(limits: Limits) -> Self {
        let Limits {
            hard_bytes,
            soft_bytes,
        } = limits;
        if hard_bytes > 0 && (hard_bytes <= soft_bytes || soft_bytes == 0) {
            return Self {
                bytes: hard_bytes,
                enforcement: Enforcement::Hard,
            };
        }
        Self {
            bytes: soft_bytes,
            enforcement: Enforcement::Soft,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn what_is_written_is_read_back() {
        for enforcement in [Enforcement::Hard, Enforcement::Soft] {
            let size = Size {
                bytes: GIB,
                enforcement,
            };
            assert_eq!(Size::from(Limits::from(size)), size);
        }
        let soft = Limits::from(Size {
            bytes: GIB,
            enforcement: Enforcement::Soft,
        });
        assert_eq!(soft.hard_bytes, 9_223_372_036_854_775_807);
    }

    #[test]
    fn quotas_of_other_hands_make_sense() {
        let read = |hard_bytes, soft_bytes| {
            let size = Size::from(Limits {
                hard_bytes,
                soft_bytes,
            });
            (size.bytes, size.enforcement)
        };
        assert_eq!(read(GIB, 2 * GIB), (GIB, Enforcement::Hard));
        assert_eq!(read(GIB, 0), (GIB, Enforcement::Hard));
        assert_eq!(read(2 * GIB, GIB), (GIB, Enforcement::Soft));
        assert_eq!(read(0, GIB), (GIB, Enforcement::Soft));
    }

    #[test]
    fn the_words_are_exact() {
        assert_eq!("HARD".parse(), Ok(Enforcement::Hard));
        assert_eq!("SOFT".parse(), Ok(Enforcement::Soft));
        for text in ["", "hard", "Soft", "NONE"] {
            assert!(text.parse::<Enforcement>().is_err(), "{text}");
        }
    }
}
