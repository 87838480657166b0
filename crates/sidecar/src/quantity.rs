//! Sizes as Kubernetes writes them.

/// Suffixes and what they stand for: a power of two, or a power of ten.
const SUFFIXES: [(&str, Factor); 15] = [
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

#[derive(Clone, Copy)]
enum Factor {
    Two(u32),
    Ten(i32),
}

/// Reads a quantity such as `10Gi`, `1.5G` or `1e9` as bytes, rounded up.
pub(crate) fn bytes(text: &str) -> Result<i64, QuantityError> {
    let error = || QuantityError(text.to_owned());
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(error());
    }
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| error())?;
    let decimals = i32::try_from(fraction.len()).map_err(|_| error())?;
    let (two, ten) = match factor(suffix).ok_or_else(error)? {
        Factor::Two(power) => (power, -decimals),
        Factor::Ten(power) => (0, power.checked_sub(decimals).ok_or_else(error)?),
    };
    let scaled = digits.checked_mul(1 << two).ok_or_else(error)?;
    let power = 10_u128.checked_pow(ten.unsigned_abs());
    let value = match (ten < 0, power) {
        (true, Some(power)) => scaled.div_ceil(power),
        // So small that only the rounding up is left.
        (true, None) => u128::from(scaled > 0),
        (false, Some(power)) => scaled.checked_mul(power).ok_or_else(error)?,
        (false, None) => return if scaled == 0 { Ok(0) } else { Err(error()) },
    };
    i64::try_from(value).map_err(|_| error())
}

fn factor(suffix: &str) -> Option<Factor> {
    if suffix.is_empty() {
        return Some(Factor::Ten(0));
    }
    if let Some((_, factor)) = SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some(*factor);
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    exponent.parse().ok().map(Factor::Ten)
}

/// Writes bytes with the largest binary suffix that loses nothing, as upstream does.
pub(crate) fn text(bytes: i64) -> String {
    let suffixes = ["Ei", "Pi", "Ti", "Gi", "Mi", "Ki"];
    for (index, suffix) in suffixes.iter().enumerate() {
        let unit = 1_i64 << (60 - 10 * index);
        if bytes != 0 && bytes % unit == 0 {
            return format!("{}{suffix}", bytes / unit);
        }
    }
    bytes.to_string()
}

/// What is no size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no size that a volume can have")]
pub(crate) struct QuantityError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_size_is_understood() {
        for (text, expected) in [
            ("0", 0),
            ("1", 1),
            ("1Ki", 1024),
            ("10Gi", 10 << 30),
            ("1.5Gi", 3 << 29),
            ("7Ei", 7 << 60),
            ("1k", 1000),
            ("1.5G", 1_500_000_000),
            ("1e3", 1000),
            ("1E3", 1000),
            ("12e-1", 2),
            ("1500m", 2),
            ("1n", 1),
            ("0.1", 1),
            ("1e-40", 1),
            ("0e40", 0),
            (".5Ki", 512),
            ("1.", 1),
            ("2E", 2_000_000_000_000_000_000),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "Gi",
            "ten",
            "1 Gi",
            "1GiB",
            "-1Gi",
            "+1",
            "8Ei",
            "1e40",
            "1.2.3",
            "1e",
            "9e18e1",
            "99999999999999999999999999999999999999999",
            "1K",
        ] {
            assert_eq!(bytes(text), Err(QuantityError(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn sizes_are_written_without_loss_and_read_back() {
        for (bytes_, expected) in [
            (0, "0"),
            (1, "1"),
            (1 << 30, "1Gi"),
            (3 << 29, "1536Mi"),
            ((1 << 30) + 1, "1073741825"),
            (1 << 60, "1Ei"),
        ] {
            assert_eq!(text(bytes_), expected);
            assert_eq!(bytes(expected), Ok(bytes_));
        }
    }
}
