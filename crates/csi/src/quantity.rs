//! Amounts of bytes as Kubernetes writes them: `1Gi`, `500M`, `1048576`. Which amounts make sense is for the caller to
//! say: the largest here is more than the protocol can carry.

use std::str::FromStr;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub u64);

/// A text that is no amount of bytes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QuantityError {
    /// No whole number, or an unknown unit.
    #[error(
        "`{0}` is no amount of bytes: write a whole number, with Ki, Mi, Gi, Ti, Pi, Ei, k, M, G, T, P or E if wanted"
    )]
    Unreadable(String),
    /// More than can be counted.
    #[error("`{0}` is more bytes than can be counted")]
    TooLarge(String),
}

const UNITS: [(&str, u64); 13] = [
    ("", 1),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

/// How much of a wrong text is shown: it may come from anybody.
const LONGEST_SHOWN: usize = 64;

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let shown = || text.chars().take(LONGEST_SHOWN).collect();
        let unreadable = || QuantityError::Unreadable(shown());
        // Digits only: `parse` alone would take a sign.
        let end = text
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, factor) = known.ok_or_else(unreadable)?;
        if digits.is_empty() {
            return Err(unreadable());
        }
        // What is left to go wrong is the size of the number.
        let number = digits.parse::<u64>().ok();
        let bytes = number.and_then(|number| number.checked_mul(*factor));
        bytes
            .map(Self)
            .ok_or_else(|| QuantityError::TooLarge(shown()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_kubernetes_writes_them() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("1Gi", 1 << 30),
            ("500M", 500_000_000),
            ("2Ti", 2 << 40),
            ("3k", 3_000),
            ("15Ei", 15 << 60),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Quantity(bytes)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "", "Gi", "-1", "+1", "1.5Gi", "1gi", "1K", "1 Gi", "10GB", "１",
        ] {
            let read = text.parse::<Quantity>();
            assert_eq!(read, Err(QuantityError::Unreadable(text.to_owned())));
        }
        let long = "x".repeat(1000).parse::<Quantity>().unwrap_err();
        assert!(long.to_string().len() < 250, "{long}");
    }

    #[test]
    fn what_cannot_be_counted_is_too_large() {
        for text in ["16Ei", "18446744073709551616", "99999999999999999999Gi"] {
            let read = text.parse::<Quantity>();
            assert_eq!(read, Err(QuantityError::TooLarge(text.to_owned())));
        }
    }
}
