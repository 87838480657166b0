//! Sizes and times as people type them.

use std::time::Duration;

use stowage_api::quantity;

/// Why a size or a time cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QuantityError {
    /// Not a size at all.
    #[error(transparent)]
    Size(#[from] quantity::QuantityError),
    /// Nothing can be made with it.
    #[error("a volume of 0 bytes cannot be tested: use a size greater than 0")]
    Zero,
    /// No number, an unknown unit, or zero.
    #[error(
        "not a valid time: use a whole number greater than 0 with one of the units ms, s, m, such as `30s`"
    )]
    NoTime,
}

/// Bytes, above zero and not more than the protocol has numbers for: `1073741824`, `10Gi`, `500M`.
pub(crate) fn size(text: &str) -> Result<i64, QuantityError> {
    match quantity::size(text)? {
        0 => Err(QuantityError::Zero),
        bytes => Ok(bytes),
    }
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
    fn a_size_is_above_zero_and_fits_the_protocol() {
        assert_eq!(size("10Gi"), Ok(10 << 30));
        assert_eq!(size("9223372036854775807"), Ok(i64::MAX));
        assert_eq!(size("0"), Err(QuantityError::Zero));
        assert_eq!(size("0Gi"), Err(QuantityError::Zero));
        for text in ["9223372036854775808", "-1", "ten"] {
            assert!(matches!(size(text), Err(QuantityError::Size(_))), "{text}");
        }
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
