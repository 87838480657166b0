//! What `values.yaml` says about its values: `# -- TEXT` above a value says what it means, `# @schema JSON` what it may be where its
//! default does not tell. The schema and the table for people are made of these.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::yaml;

/// From here on Go prints floating-point numbers, which is what values are, with an exponent.
const LARGE: f64 = 1e6;

/// A value that a person may set.
#[derive(Clone, Debug, PartialEq)]
pub struct Documented {
    /// Its name, with those of the sections above it.
    pub path: Vec<String>,
    /// What it means.
    pub meaning: String,
    /// What it may be.
    pub schema: Value,
    /// What it is if nobody says otherwise.
    pub default: Value,
}

/// All values of a file, in its order. A value without a comment is an error.
pub fn read(text: &str) -> Result<Vec<Documented>, String> {
    let defaults = yaml::read(text)?;
    let mut found = Vec::new();
    let mut sections: Vec<(usize, String)> = Vec::new();
    let (mut meaning, mut schema) = (None, None);
    // Lines below a value that has a comment are part of its default.
    let mut inside: Option<usize> = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let content = line.trim();
        if content.is_empty() || inside.is_some_and(|it| indent > it || content.starts_with("- ")) {
            continue;
        }
        inside = None;
        if let Some(comment) = content.strip_prefix('#') {
            let comment = comment.trim_start();
            if let Some(text) = comment.strip_prefix("-- ") {
                meaning = Some(text.to_owned());
            } else if let Some(text) = comment.strip_prefix("@schema ") {
                let json = serde_json::from_str(text);
                schema = Some(json.map_err(|error| format!("`{content}`: {error}"))?);
            }
            continue;
        }
        let Some((name, _)) = content.split_once(':') else {
            return Err(format!("`{content}` is not a value"));
        };
        sections.retain(|(at, _)| *at < indent);
        sections.push((indent, name.to_owned()));
        let path: Vec<_> = sections.iter().map(|(_, name)| name.clone()).collect();
        let default = path.iter().fold(&defaults, |at, name| &at[name]).clone();
        if default.as_f64().is_some_and(|it| it.abs() >= LARGE) {
            return Err(format!(
                "`{}`: Helm prints so large a number as 1e+06: write it as text",
                path.join(".")
            ));
        }
        match meaning.take() {
            Some(meaning) => {
                inside = Some(indent);
                found.push(Documented {
                    schema: complete(schema.take(), &default),
                    path,
                    meaning,
                    default,
                });
            }
            None if !default.is_object() => {
                return Err(format!("`{}` has no comment `# -- ...`", path.join(".")));
            }
            None => {}
        }
    }
    Ok(found)
}

/// What a value may be: what the comment says, and the type of the default.
fn complete(said: Option<Value>, default: &Value) -> Value {
    let mut schema = match said {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let kind = match default {
        Value::Null => None,
        Value::Bool(_) => Some("boolean"),
        Value::Number(_) => Some("integer"),
        Value::String(_) => Some("string"),
        Value::Array(_) => Some("array"),
        Value::Object(_) => Some("object"),
    };
    if let Some(kind) =
        kind.filter(|_| !schema.contains_key("type") && !schema.contains_key("enum"))
    {
        schema.insert("type".to_owned(), json!(kind));
    }
    Value::Object(schema)
}

/// The schema of all of them. `charts` are the ones that the chart brings along: they have schemas of their own.
pub fn schema(values: &[Documented], charts: &[&str]) -> Value {
    let mut root = section();
    for name in charts.iter().chain(&["global"]) {
        root["properties"][*name] = json!({"type": "object"});
    }
    for value in values {
        let Some((last, above)) = value.path.split_last() else {
            continue;
        };
        let mut at = &mut root;
        for name in above {
            let properties = &mut at["properties"];
            if properties.get(name).is_none() {
                properties[name] = section();
            }
            at = &mut properties[name];
        }
        let mut schema = value.schema.clone();
        schema["description"] = json!(value.meaning);
        at["properties"][last] = schema;
    }
    let mut schema = json!({"$schema": "http://json-schema.org/draft-07/schema#"});
    if let (Value::Object(schema), Value::Object(root)) = (&mut schema, root) {
        schema.extend(root);
    }
    schema
}

fn section() -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": {}})
}

/// The table for people.
pub fn table(values: &[Documented]) -> String {
    let mut text = String::from("| value | default | |\n|---|---|---|\n");
    for value in values {
        let default = match &value.default {
            Value::Null => String::new(),
            Value::String(it) if it.is_empty() => String::new(),
            Value::String(it) => format!("`{it}`"),
            other => format!("`{other}`"),
        };
        let meaning = value.meaning.replace('|', "\\|");
        let words = value.schema["enum"].as_array().map(|words| {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            format!(" (`{}`)", words.join("`, `"))
        });
        // The words are in the text where it explains them.
        let words = words.filter(|it| it.len() > 5 && !meaning.contains('`'));
        let words = words.unwrap_or_default();
        _ = writeln!(
            text,
            "| `{}` | {default} | {meaning}{words} |",
            value.path.join(".")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
# About the file.
image:
  # -- Where it is
  name: a
# -- How many
# @schema {\"minimum\": 1}
count: 1
section:
  # -- Some
  list:
  - a: 1
  # -- One of two
  # @schema {\"enum\": [\"x\", \"y\"]}
  word: x
";

    #[test]
    fn comments_become_schema_and_table() {
        let values = read(FILE).unwrap();
        let paths: Vec<_> = values.iter().map(|it| it.path.join(".")).collect();
        assert_eq!(
            paths,
            ["image.name", "count", "section.list", "section.word"]
        );
        let schema = schema(&values, &["below"]);
        assert_eq!(schema["properties"]["count"]["minimum"], 1);
        assert_eq!(
            schema["properties"]["image"]["properties"]["name"]["type"],
            "string"
        );
        assert_eq!(schema["properties"]["below"], json!({"type": "object"}));
        assert_eq!(schema["additionalProperties"], false);
        let word = &schema["properties"]["section"]["properties"]["word"];
        assert_eq!(
            word,
            &json!({"enum": ["x", "y"], "description": "One of two"})
        );
        assert!(table(&values).contains("| `section.word` | `x` | One of two (`x`, `y`) |\n"));
    }

    #[test]
    fn a_value_that_nobody_explains_is_an_error() {
        let error = read("a:\n  b: 1\n").unwrap_err();
        assert!(error.contains("`a.b` has no comment"), "{error}");
    }
}
