//! Amounts of bytes as Kubernetes writes them: `10Gi`, `1.5Ti`, `500M`, `1e9`, `1048576`.

use std::fmt;
use std::str::FromStr;

/// Suffixes and what they stand for: a power of two, or a power of ten.
const SUFFIXES: [(&str, Factor); 16] = [
    ("", Factor::Ten(0)),
    ("Ki", Factor::Two(10)),
    ("Mi", Factor::Two(20)),
    ("Gi", Factor::Two(30)),
    ("Ti", Factor::Two(40)),
    ("Pi", Factor::Two(50)),
    ("Ei", Factor::Two(60)),
    ("n", Factor::Ten(-9)),
    ("u", Factor::Ten(-6)),
    ("m", Factor::Ten(-3)),
    ("k", Factor::Ten(3)),
    ("M", Factor::Ten(6)),
    ("G", Factor::Ten(9)),
    ("T", Factor::Ten(12)),
    ("P", Factor::Ten(15)),
    ("E", Factor::Ten(18)),
];

/// How much of a wrong text is shown: it may come from anybody.
const LONGEST_SHOWN: usize = 64;

#[derive(Clone, Copy)]
enum Factor {
    Two(u32),
    Ten(i32),
}

/// A number of bytes. Read from Kubernetes' whole grammar, fractions are rounded up; written with the largest binary
/// suffix that loses nothing, as upstream does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(i64);

/// Why a text is not an amount of bytes that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number, or an unknown suffix.
    #[error(
        "`{0}` is not a valid quantity: write a number, optionally with one of the suffixes Ki, Mi, Gi, Ti, Pi, Ei, k, M, G, T, P, E"
    )]
    Invalid(String),
    /// More than Kubernetes can express.
    #[error("`{0}` is too large: the largest quantity is 8Ei minus one byte")]
    TooLarge(String),
    /// Less than nothing, where a size is meant.
    #[error("`{0}` is negative: a size must be zero or more")]
    Negative(String),
}

/// Reads a quantity that is a size, in bytes: zero or more.
pub fn size(text: &str) -> Result<i64, QuantityError> {
    let quantity: Quantity = text.parse()?;
    if quantity.0 < 0 {
        return Err(QuantityError::Negative(shown(text)));
    }
    Ok(quantity.0)
}

/// Writes a number of bytes as a quantity.
pub fn text(bytes: i64) -> String {
    Quantity(bytes).to_string()
}

impl Quantity {
    /// The number of bytes.
    pub fn bytes(self) -> i64 {
        self.0
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let invalid = || QuantityError::Invalid(shown(text));
        let too_large = || QuantityError::TooLarge(shown(text));
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let factor = factor(suffix).ok_or_else(invalid)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(invalid());
        }
        // Only digits are left: what can go wrong is their number.
        let digits = format!("{whole}{fraction}").parse::<u128>();
        let decimals = i32::try_from(fraction.len()).map_err(|_| too_large())?;
        let magnitude = digits
            .ok()
            .and_then(|digits| scale(digits, decimals, factor));
        let magnitude = magnitude.and_then(|bytes| i64::try_from(bytes).ok());
        let bytes = magnitude.ok_or_else(too_large)?;
        Ok(Self(if negative { -bytes } else { bytes }))
    }
}

/// `digits` with so many decimals, times the factor, rounded up.
fn scale(digits: u128, decimals: i32, factor: Factor) -> Option<u128> {
    let (two, ten) = match factor {
        Factor::Two(power) => (power, -decimals),
        Factor::Ten(power) => (0, power.checked_sub(decimals)?),
    };
    let scaled = digits.checked_mul(1 << two)?;
    match (ten < 0, 10_u128.checked_pow(ten.unsigned_abs())) {
        (true, Some(power)) => Some(scaled.div_ceil(power)),
        // So small that only the rounding up is left.
        (true, None) => Some(u128::from(scaled > 0)),
        (false, Some(power)) => scaled.checked_mul(power),
        (false, None) => (scaled == 0).then_some(0),
    }
}

fn factor(suffix: &str) -> Option<Factor> {
    if let Some((_, factor)) = SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some(*factor);
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    exponent.parse().ok().map(Factor::Ten)
}

fn shown(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffixes = ["Ei", "Pi", "Ti", "Gi", "Mi", "Ki"];
        for (index, suffix) in suffixes.iter().enumerate() {
            let unit = 1_i64 << (60 - 10 * index);
            if self.0 != 0 && self.0 % unit == 0 {
                return write!(formatter, "{}{suffix}", self.0 / unit);
            }
        }
        write!(formatter, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<i64, QuantityError> {
        text.parse().map(Quantity::bytes)
    }

    #[test]
    fn every_way_to_write_a_quantity_is_understood() {
        for (text, expected) in [
            ("0", 0),
            ("1", 1),
            ("+1", 1),
            ("-1Gi", -(1 << 30)),
            ("1Ki", 1024),
            ("10Gi", 10 << 30),
            ("1.5Gi", 3 << 29),
            ("1.5Ti", 3 << 39),
            ("7Ei", 7 << 60),
            ("1k", 1000),
            ("1.5G", 1_500_000_000),
            ("1e3", 1000),
            ("1E3", 1000),
            ("1e+3", 1000),
            ("12e-1", 2),
            ("1500m", 2),
            ("1n", 1),
            ("0.1", 1),
            ("1e-40", 1),
            ("0e40", 0),
            (".5Ki", 512),
            ("1.", 1),
            ("2E", 2_000_000_000_000_000_000),
            ("9223372036854775807", i64::MAX),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        for text in [
            "", "Gi", "ten", "1 Gi", "1GiB", "1gi", "10GB", "--1", "1.2.3", ".", "1e", "9e18e1",
            "1K", "１",
        ] {
            assert_eq!(bytes(text), Err(QuantityError::Invalid(text.to_owned())));
        }
        let long = bytes(&"x".repeat(1000)).unwrap_err();
        assert!(long.to_string().len() < 250, "{long}");
        for text in [
            "8Ei",
            "1e40",
            "9223372036854775808",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(bytes(text), Err(QuantityError::TooLarge(text.to_owned())));
        }
    }

    #[test]
    fn a_size_is_not_negative() {
        assert_eq!(size("1.5Ti"), Ok(3 << 39));
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("-1"), Err(QuantityError::Negative("-1".to_owned())));
    }

    #[test]
    fn quantities_are_written_without_loss_and_read_back() {
        for (amount, expected) in [
            (0, "0"),
            (1, "1"),
            (1000, "1000"),
            (1 << 30, "1Gi"),
            (3 << 29, "1536Mi"),
            ((1 << 30) + 1, "1073741825"),
            (1 << 62, "4Ei"),
            (-1024, "-1Ki"),
        ] {
            assert_eq!(text(amount), expected);
            assert_eq!(bytes(expected), Ok(amount));
        }
    }
}
