//! YAML in and out, as Helm reads and writes it.

use serde_json::Value;

/// Words that YAML 1.1 reads as true or false, and newer parsers as text. Helm and kubectl are of the first kind: whoever means the
/// word must quote it, and our charts may not depend on who reads them.
const AMBIGUOUS: [&str; 10] = ["on", "off", "yes", "no", "y", "n", "On", "Off", "Yes", "No"];

/// Reads one document; nothing is `null`.
pub fn read(text: &str) -> Result<Value, String> {
    refuse_ambiguous(text)?;
    let value: Option<Value> = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    Ok(value.unwrap_or(Value::Null))
}

/// Reads all documents but empty ones.
pub fn read_all(text: &str) -> Result<Vec<Value>, String> {
    refuse_ambiguous(text)?;
    let values: Vec<Option<Value>> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    Ok(values
        .into_iter()
        .flatten()
        .filter(|it| !it.is_null())
        .collect())
}

/// Writes a value, without the line's end.
pub fn write(value: &Value) -> Result<String, String> {
    let text = serde_saphyr::to_string(value).map_err(|error| error.to_string())?;
    Ok(text.trim_end().to_owned())
}

fn refuse_ambiguous(text: &str) -> Result<(), String> {
    for line in text.lines() {
        let scalar = line.split_once(": ").map_or_else(
            || line.trim_start().strip_prefix("- ").unwrap_or_default(),
            |(_, scalar)| scalar,
        );
        if AMBIGUOUS.contains(&scalar.trim()) {
            return Err(format!(
                "`{}`: write the word in quotes, or `true` or `false`",
                line.trim()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_parsers_disagree_about_are_refused() {
        for text in ["a: off", "- yes", "a:\n  b: On"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("a: \"off\"").unwrap()["a"], "off");
        assert_eq!(read("").unwrap(), Value::Null);
    }
}
