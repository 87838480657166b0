//! What values may be: the keywords of JSON Schema that our charts use. Another one is an error of the schema.

use serde_json::Value;

/// Everything that is wrong with a value, each with the path to it, as Helm shows it.
pub fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, value, "", &mut found);
    found
}

fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    for (keyword, wanted) in schema.as_object().into_iter().flatten() {
        let fault = match keyword.as_str() {
            "$schema" | "title" | "description" | "default" => None,
            "type" => wrong_type(wanted, value),
            "enum" => not_among(wanted, value),
            "minimum" => below(value, wanted).then(|| format!("must be at least {wanted}")),
            "maximum" => below(wanted, value).then(|| format!("must be at most {wanted}")),
            "maxLength" => too_long(wanted, value),
            "required" => missing(wanted, value),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(wanted, item, &below_path(path, &index.to_string()), found);
                }
                None
            }
            "properties" => {
                for (name, schema) in wanted.as_object().into_iter().flatten() {
                    if let Some(field) = value.get(name) {
                        check(schema, field, &below_path(path, name), found);
                    }
                }
                None
            }
            "additionalProperties" => {
                additional(schema, wanted, value, path, found);
                None
            }
            unknown => Some(format!("the schema has the unknown keyword `{unknown}`")),
        };
        let at = if path.is_empty() { "(root)" } else { path };
        found.extend(fault.map(|fault| format!("{at}: {fault}")));
    }
}

fn below_path(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

fn wrong_type(wanted: &Value, value: &Value) -> Option<String> {
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(it) if it.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let names: Vec<_> = match wanted {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let fits = names.contains(&is) || is == "integer" && names.contains(&"number");
    (!fits).then(|| {
        let names = names.join(" or ");
        format!("Invalid type. Expected: {names}, given: {is}")
    })
}

fn not_among(wanted: &Value, value: &Value) -> Option<String> {
    let words = wanted.as_array()?;
    (!words.contains(value)).then(|| {
        let words: Vec<_> = words.iter().map(ToString::to_string).collect();
        format!("must be one of the following: {}", words.join(", "))
    })
}

fn below(one: &Value, other: &Value) -> bool {
    matches!((one.as_f64(), other.as_f64()), (Some(one), Some(other)) if one < other)
}

fn too_long(wanted: &Value, value: &Value) -> Option<String> {
    let (most, length) = (wanted.as_u64()?, value.as_str()?.chars().count() as u64);
    (length > most).then(|| format!("String length must be less than or equal to {most}"))
}

fn missing(wanted: &Value, value: &Value) -> Option<String> {
    let fields = value.as_object()?;
    let names = wanted.as_array()?.iter().filter_map(Value::as_str);
    let missing: Vec<_> = names.filter(|name| !fields.contains_key(*name)).collect();
    (!missing.is_empty()).then(|| format!("{} is required", missing.join(", ")))
}

fn additional(schema: &Value, wanted: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    for (name, field) in value.as_object().into_iter().flatten() {
        if schema["properties"].get(name).is_some() {
            continue;
        }
        match wanted {
            Value::Bool(true) => {}
            Value::Bool(false) => {
                let at = if path.is_empty() { "(root)" } else { path };
                found.push(format!("{at}: Additional property {name} is not allowed"));
            }
            schema => check(schema, field, &below_path(path, name), found),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_is_wrong_is_named() {
        let schema = json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "mode": {"enum": ["off", false]},
                "count": {"type": "integer", "minimum": 1},
                "names": {"type": "array", "items": {"type": "string", "maxLength": 3}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        });
        let right = json!({"mode": "off", "count": 1, "names": ["abc"], "labels": {"a": "b"}});
        assert_eq!(violations(&schema, &right), Vec::<String>::new());
        let wrong =
            json!({"mode": "on", "count": 0, "names": ["abcd", 1], "labels": {"a": 1}, "moed": 1});
        assert_eq!(
            violations(&schema, &wrong),
            [
                "(root): Additional property moed is not allowed",
                "count: must be at least 1",
                "labels.a: Invalid type. Expected: string, given: integer",
                "mode: must be one of the following: \"off\", false",
                "names.0: String length must be less than or equal to 3",
                "names.1: Invalid type. Expected: string, given: integer",
            ]
        );
        assert!(violations(&json!({"pattern": "x"}), &json!("y"))[0].contains("unknown keyword"));
    }
}
