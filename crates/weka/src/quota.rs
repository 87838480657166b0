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

/// The numbers of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) hard_bytes: u64,
    pub(crate) soft_bytes: u64,
    /// How long a writer may stay above the soft limit; 0 is for ever.
    pub(crate) grace_seconds: u64,
}

impl Limits {
    /// Those of a volume of this size. Whoever writes past the end of a soft one is refused once it has been exceeded for
    /// longer than its grace period; 0 is never. A hard one has none.
    pub(crate) fn new(size: Size, grace_seconds: u64) -> Self {
        let grace_seconds = match size.enforcement {
            Enforcement::Hard => 0,
            Enforcement::Soft => grace_seconds,
        };
        Self {
            grace_seconds,
            ..Self::from(size)
        }
    }

    /// The same for a larger volume. A hard limit that somebody put above the size stays where it is or, if the size
    /// outgrows it, as far above it as before; so does its grace period.
    pub(crate) fn grown(self, bytes: u64) -> Self {
        let size = Size::from(self);
        let is_above = size.enforcement == Enforcement::Soft
            && (self.soft_bytes..UNLIMITED).contains(&self.hard_bytes);
        let mut grown = Self::from(Size { bytes, ..size });
        grown.grace_seconds = self.grace_seconds;
        if is_above {
            let distance = self.hard_bytes - self.soft_bytes;
            grown.hard_bytes = if self.hard_bytes >= bytes {
                self.hard_bytes
            } else {
                bytes.saturating_add(distance).min(UNLIMITED)
            };
        }
        grown
    }
}

impl From<Size> for Limits {
    fn from(size: Size) -> Self {
        Self {
            hard_bytes: match size.enforcement {
                Enforcement::Hard => size.bytes,
                Enforcement::Soft => UNLIMITED,
            },
            soft_bytes: size.bytes,
            grace_seconds: 0,
        }
    }
}

impl From<Limits> for Size {
    /// Quotas of other hands are read, too: a hard limit without a soft one is a hard one.
    fn from(limits: Limits) -> Self {
        let Limits {
            hard_bytes,
            soft_bytes,
            ..
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
    fn only_a_soft_limit_has_a_grace_period() {
        for (enforcement, grace) in [(Enforcement::Hard, 0), (Enforcement::Soft, 3600)] {
            let size = Size {
                bytes: GIB,
                enforcement,
            };
            let limits = Limits::new(size, 3600);
            assert_eq!(limits.grace_seconds, grace);
            assert_eq!(limits.grown(2 * GIB).grace_seconds, grace, "it stays");
        }
    }

    #[test]
    fn quotas_of_other_hands_make_sense() {
        let read = |hard_bytes, soft_bytes| {
            let size = Size::from(Limits {
                hard_bytes,
                soft_bytes,
                grace_seconds: 0,
            });
            (size.bytes, size.enforcement)
        };
        assert_eq!(read(GIB, 2 * GIB), (GIB, Enforcement::Hard));
        assert_eq!(read(GIB, 0), (GIB, Enforcement::Hard));
        assert_eq!(read(2 * GIB, GIB), (GIB, Enforcement::Soft));
        assert_eq!(read(0, GIB), (GIB, Enforcement::Soft));
    }

    #[test]
    fn a_volume_that_grows_keeps_its_limits_in_proportion() {
        for (before, bytes, after) in [
            // Ours, HARD and SOFT.
            ((GIB, GIB, 0), 2 * GIB, (2 * GIB, 2 * GIB, 0)),
            ((UNLIMITED, GIB, 0), 2 * GIB, (UNLIMITED, 2 * GIB, 0)),
            ((UNLIMITED, GIB, 60), 2 * GIB, (UNLIMITED, 2 * GIB, 60)),
            // A hard limit above the soft one, with a grace period.
            ((4 * GIB, GIB, 3600), 2 * GIB, (4 * GIB, 2 * GIB, 3600)),
            ((4 * GIB, GIB, 3600), 5 * GIB, (8 * GIB, 5 * GIB, 3600)),
            // None at all, and none below.
            ((0, GIB, 0), 2 * GIB, (UNLIMITED, 2 * GIB, 0)),
            ((GIB, 0, 0), 2 * GIB, (2 * GIB, 2 * GIB, 0)),
        ] {
            let limits = |(hard_bytes, soft_bytes, grace_seconds)| Limits {
                hard_bytes,
                soft_bytes,
                grace_seconds,
            };
            assert_eq!(limits(before).grown(bytes), limits(after), "{before:?}");
        }
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
