//! The values of a release: a chart's defaults, and a person's own over them.

use serde_json::{Map, Value, json};

use crate::chart::Chart;
use crate::error::{Error, Result};

/// The defaults of a chart and of those that it brings along, with `own` over them.
pub fn of(chart: &Chart, own: &Value) -> Value {
    let mut values = chart.values.clone();
    for dependency in &chart.dependencies {
        let mut below = dependency.values.clone();
        overlay(&mut below, &values[dependency.name()]);
        values[dependency.name()] = below;
    }
    overlay(&mut values, own);
    values
}

/// Lays values over others, field by field. `null` takes a default away.
pub fn overlay(values: &mut Value, over: &Value) {
    match (values, over) {
        (Value::Object(values), Value::Object(over)) => {
            for (name, value) in over {
                if value.is_null() {
                    values.remove(name);
                    continue;
                }
                overlay(values.entry(name).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (values, over) => *values = over.clone(),
    }
}

/// `--set a.b=c,d=true`: values over values. Numbers, `true`, `false` and `null` are what they look like; everything else is text.
pub fn set(values: &mut Value, words: &str) -> Result<()> {
    for word in words.split(',') {
        let (path, value) = word
            .split_once('=')
            .filter(|(path, _)| !path.is_empty())
            .ok_or_else(|| Error::Set(word.to_owned()))?;
        let mut at = &mut *values;
        for name in path.split('.') {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[name];
        }
        *at = typed(value);
    }
    Ok(())
}

fn typed(text: &str) -> Value {
    match text {
        "true" => json!(true),
        "false" => json!(false),
        "null" => Value::Null,
        _ => text
            .parse::<i64>()
            .map_or_else(|_| json!(text), |it| json!(it)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_values_win_field_by_field() {
        let mut values = json!({"a": {"b": 1, "c": [1, 2]}, "d": "x", "e": "y"});
        overlay(
            &mut values,
            &json!({"a": {"c": [3]}, "d": null, "f": {"g": true}}),
        );
        let expected = json!({"a": {"b": 1, "c": [3]}, "e": "y", "f": {"g": true}});
        assert_eq!(values, expected);
    }

    #[test]
    fn the_command_line_has_types() {
        let mut values = json!({"a": {"b": 1}});
        set(&mut values, "a.b=off,a.c=2,d=true,e.f=1.5").unwrap();
        let expected = json!({"a": {"b": "off", "c": 2}, "d": true, "e": {"f": "1.5"}});
        assert_eq!(values, expected);
        assert!(set(&mut values, "nonsense").is_err());
    }
}
