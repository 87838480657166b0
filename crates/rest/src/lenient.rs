//! Values in every spelling that arrays use: numbers as texts, switches as words, null where there is nothing.
//!
//! For `#[serde(deserialize_with = ...)]`, together with `default`.

use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Whole(u64),
    Fraction(f64),
    Switch(bool),
    Text(String),
    Nothing(()),
}

/// A whole number that is not negative; fractions are cut off, nothing is 0.
pub fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = match Written::deserialize(from)? {
        Written::Whole(number) => return Ok(number),
        Written::Fraction(number) => return Ok(whole(number)),
        Written::Switch(on) => return Ok(u64::from(on)),
        Written::Nothing(()) => return Ok(0),
        Written::Text(text) => text,
    };
    let text = text.trim();
    if text.is_empty() {
        return Ok(0);
    }
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let not_a_number = |_| serde::de::Error::custom(format!("`{text}` is not a number"));
    text.parse().map(whole).map_err(not_a_number)
}

/// A whole number that is not negative, if there is one: whatever else is written is none.
pub fn optional_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(match Written::deserialize(from)? {
        Written::Whole(number) => Some(number),
        Written::Text(text) => text.trim().parse().ok(),
        Written::Fraction(_) | Written::Switch(_) | Written::Nothing(()) => None,
    })
}

/// A number with a fraction; nothing is 0.
pub fn fraction<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let finite = |number: f64| if number.is_finite() { number } else { 0.0 };
    match Written::deserialize(from)? {
        #[expect(
            clippy::cast_precision_loss,
            reason = "sizes of arrays are far smaller"
        )]
        Written::Whole(number) => Ok(number as f64),
        Written::Fraction(number) => Ok(finite(number)),
        Written::Switch(_) | Written::Nothing(()) => Ok(0.0),
        Written::Text(text) if text.trim().is_empty() => Ok(0.0),
        Written::Text(text) => {
            let not_a_number = |_| serde::de::Error::custom(format!("`{text}` is not a number"));
            text.trim().parse().map(finite).map_err(not_a_number)
        }
    }
}

/// `YES`, `true`, `1` and their likes; everything else is no.
pub fn switch<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(match Written::deserialize(from)? {
        Written::Switch(on) => on,
        Written::Whole(number) => number != 0,
        Written::Fraction(_) | Written::Nothing(()) => false,
        Written::Text(text) => ["yes", "true", "on", "1"]
            .iter()
            .any(|word| text.trim().eq_ignore_ascii_case(word)),
    })
}

/// A text; numbers are texts, too, and nothing is the empty one.
pub fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(match Written::deserialize(from)? {
        Written::Text(text) => text,
        Written::Whole(number) => number.to_string(),
        Written::Fraction(number) => number.to_string(),
        Written::Switch(on) => on.to_string(),
        Written::Nothing(()) => String::new(),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what does not fit becomes the nearest number that does"
)]
fn whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    struct Values {
        #[serde(default, deserialize_with = "number")]
        number: u64,
        #[serde(default, deserialize_with = "fraction")]
        fraction: f64,
        #[serde(default, deserialize_with = "switch")]
        switch: bool,
        #[serde(default, deserialize_with = "text")]
        text: String,
    }

    fn read(field: &str, value: &Value) -> Option<Values> {
        serde_json::from_value(json!({ field: value })).ok()
    }

    #[test]
    fn numbers_are_read_in_every_spelling() {
        for (value, expected) in [
            (json!("281474976710656"), Some(281_474_976_710_656)),
            (json!(" 7 "), Some(7)),
            (json!(7), Some(7)),
            (json!("7.9"), Some(7)),
            (json!(7.9), Some(7)),
            (json!(-1), Some(0)),
            (json!(""), Some(0)),
            (json!(null), Some(0)),
            (json!("seven"), None),
            (json!([7]), None),
        ] {
            let found = read("number", &value).map(|values| values.number);
            assert_eq!(found, expected, "{value}");
        }
        for (value, expected) in [("0.5", 0.5), ("NaN", 0.0)] {
            let found = read("fraction", &json!(value)).unwrap().fraction;
            assert!((found - expected).abs() < 1e-9, "{value}: {found}");
        }
        assert!(read("fraction", &json!("half")).is_none());
    }

    #[test]
    fn switches_and_texts_are_read_in_every_spelling() {
        for (value, expected) in [
            (json!("YES"), true),
            (json!("yes"), true),
            (json!(true), true),
            (json!(1), true),
            (json!("NO"), false),
            (json!("perhaps"), false),
            (json!(null), false),
        ] {
            assert_eq!(read("switch", &value).unwrap().switch, expected, "{value}");
        }
        assert_eq!(read("text", &json!(7)).unwrap().text, "7");
        assert_eq!(read("text", &json!(null)).unwrap().text, "");
    }
}
