//! Amounts of bytes as Kubernetes writes them: `1Gi`, `500M`, `1048576`.

use std::str::FromStr;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub u64);

/// A text that is no amount of bytes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is no amount of bytes: write a whole number, with Ki, Mi, Gi, Ti, k, M, G or T if wanted"
)]
pub struct QuantityError(String);

const UNITS: [(&str, u64); 12] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("", 1),
];

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let wrong = || QuantityError(text.chars().take(64).collect());
        let end = text
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (_, factor) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(wrong)?;
        // Sizes are signed on the wire.
        let bytes = number.checked_mul(*factor).ok_or_else(wrong)?;
        i64::try_from(bytes)
            .map(|_| Self(bytes))
            .map_err(|_| wrong())
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
        ] {
            assert_eq!(text.parse(), Ok(Quantity(bytes)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "Gi",
            "-1",
            "1.5Gi",
            "1gi",
            "1 Gi",
            "9999999999Gi",
            "8Ei",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }
}
