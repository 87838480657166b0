//! Moments: `2013-09-26 00:42:30 UTC` of older versions, `2015-10-27T15:00:16+00:00` of newer ones.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer};

/// For `#[serde(deserialize_with = ...)]`: what is not a moment is none.
pub(super) fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<String> = Option::deserialize(from)?;
    Ok(text.and_then(|text| read(&text)))
}

fn read(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Some(civil) = text.strip_suffix(" UTC") {
        let civil: DateTime = civil.trim().replacen(' ', "T", 1).parse().ok()?;
        return civil.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp());
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read() {
        for (text, seconds) in [
            ("2013-09-26 00:42:30 UTC", Some(1_380_156_150)),
            ("2013-09-26T00:42:30+00:00", Some(1_380_156_150)),
            ("2013-09-26T02:42:30+02:00", Some(1_380_156_150)),
            ("2013-09-26T00:42:30Z", Some(1_380_156_150)),
            ("yesterday", None),
            ("", None),
        ] {
            let found = read(text).map(Timestamp::as_second);
            assert_eq!(found, seconds, "{text}");
        }
    }
}
