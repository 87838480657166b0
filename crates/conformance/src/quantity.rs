//! Sizes and times as people type them.

use std::time::Duration;

/// Units of sizes, as Kubernetes writes them.
const SIZES: [(&str, i64); 8] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

/// Why a size or a time cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QuantityError {
    /// No number, an unknown unit, or zero.
    #[error(
        "a size is a whole number above zero, with or without one of Ki, Mi, Gi, Ti, k, M, G, T"
    )]
    NoSize,
    /// More than the protocol's numbers hold.
    #[error("this is more bytes than the protocol can express")]
    TooLarge,
    /// No number, an unknown unit, or zero.
    #[error("a time is a whole number above zero with one of ms, s, m: `30s`")]
    NoTime,
}

/// Bytes: `1073741824`, `10Gi`, `500M`.
pub(crate) fn size(text: &str) -> Result<i64, QuantityError> {
    let (number, unit) = SIZES
        .iter()
        .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))
        .unwrap_or((text, 1));
    let number = whole(number).ok_or(QuantityError::NoSize)?;
    i64::try_from(number)
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .ok_or(QuantityError::TooLarge)
}

/// A time: `500ms`, `30s`, `2m`.
pub(crate) fn time(text: &str) -> Result<Duration, QuantityError> {
    let (number, unit) = [("ms", 1), ("s", 1_000), ("m", 60_000)]
        .iter()
        .find_map(|(unit, millis)| Some((text.strip_suffix(unit)?, *millis)))
        .ok_or(QuantityError::NoTime)?;
    let millis = whole(number).and_then(|number| number.checked_mul(unit));
    millis
        .map(Duration::from_millis)
        .ok_or(QuantityError::NoTime)
}

/// Digits only: `parse` alone would take a sign.
fn whole(digits: &str) -> Option<u64> {
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .parse()
        .ok()
        .filter(|number| all_digits && *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_kubernetes() {
        assert_eq!(size("1"), Ok(1));
        assert_eq!(size("10Gi"), Ok(10 << 30));
        assert_eq!(size("3k"), Ok(3_000));
        assert_eq!(size("2T"), Ok(2_000_000_000_000));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "Gi", "0", "-1", "+1", "1.5Gi", "10 Gi", "10GB", "10gi"] {
            assert_eq!(size(text), Err(QuantityError::NoSize), "{text}");
        }
        assert_eq!(size("9000000Ti"), Err(QuantityError::TooLarge));
        assert_eq!(size("9223372036854775808"), Err(QuantityError::TooLarge));
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(time("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "30", "s", "0s", "-1s", "1h", "99999999999999999999s"] {
            assert_eq!(time(text), Err(QuantityError::NoTime), "{text}");
        }
    }
}
