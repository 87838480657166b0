//! Durations as Go writes them.
//!
//! The flags of the Go sidecars take `15s`, `1m30s` or `250ms`; manifests that carry such values must keep working.

use std::time::Duration;

/// A text that is not a duration.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a duration: write numbers with units, such as `15s`, `1m30s` or `250ms`")]
pub struct DurationError(String);

/// Reads a duration in Go's syntax: one or more numbers, each with a unit of `ns`, `us`, `ms`, `s`, `m` or `h`.
///
/// Negative durations, which Go's syntax allows, are refused: no flag of ours has a meaning for them.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let wrong = || DurationError(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    loop {
        let number_length = rest.find(|c| !is_number(c)).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(number_length);
        let (unit, tail) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
        let part = amount(number, unit).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = tail;
        if rest.is_empty() {
            return Ok(total);
        }
    }
}

fn is_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

fn amount(number: &str, unit: &str) -> Option<Duration> {
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_understood() {
        let table = [
            ("15s", Duration::from_secs(15)),
            ("1m30s", Duration::from_secs(90)),
            ("1h0m0.5s", Duration::from_millis(3_600_500)),
            ("1.5h", Duration::from_secs(5400)),
            ("250ms", Duration::from_millis(250)),
            ("7us", Duration::from_micros(7)),
            ("7µs", Duration::from_micros(7)),
            ("100ns", Duration::from_nanos(100)),
            ("0", Duration::ZERO),
            ("0s", Duration::ZERO),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example_of_what_is_right() {
        for text in [
            "",
            "15",
            "s",
            "15 s",
            "-1s",
            "1.2.3s",
            "1d",
            "1s2",
            ".s",
            "1e9s",
            "99999999999999999999h",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{text}`")) && error.contains("`1m30s`"),
                "{error}"
            );
        }
    }
}
