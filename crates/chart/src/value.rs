//! Values of a chart as the template language sees them, and back.

use std::sync::Arc;

use gotmpl::Value;
use serde_json::{Map, Number, Value as Json};

/// Numbers become floating-point numbers, as in Helm. There a large one is printed as `1e+06`, and here not: charts may not have any.
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(it) => Value::Bool(*it),
        Json::Number(it) => it.as_f64().map_or(Value::Nil, Value::Float),
        Json::String(it) => Value::String(it.as_str().into()),
        Json::Array(items) => list(items.iter().map(from_json).collect()),
        Json::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, it)| (Arc::from(name.as_str()), from_json(it)));
            Value::Map(Arc::new(fields.collect()))
        }
    }
}

/// Back again; a function has no such form.
pub fn to_json(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(it) => Json::Bool(*it),
        Value::Int(it) => Json::Number((*it).into()),
        Value::Uint(it) => Json::Number((*it).into()),
        Value::Float(it) => number(*it)?,
        Value::String(it) => Json::String(it.to_string()),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Value::Map(fields) => {
            let mut map = Map::new();
            for (name, it) in fields.iter() {
                map.insert(name.to_string(), to_json(it)?);
            }
            Json::Object(map)
        }
        Value::Function(_) => return Err("a function is not data".to_owned()),
    })
}

#[allow(clippy::cast_possible_truncation, reason = "checked just before")]
fn number(it: f64) -> Result<Json, String> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if it.fract() == 0.0 && it.abs() <= EXACT {
        return Ok(Json::Number((it as i64).into()));
    }
    Number::from_f64(it)
        .map(Json::Number)
        .ok_or_else(|| format!("{it} is not a number of JSON"))
}

/// A list of the template language.
pub fn list(items: Vec<Value>) -> Value {
    Value::List(items.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let json = json!({"a": [1, 2.5, "x", true, null], "b": {"c": {}}});
        assert_eq!(to_json(&from_json(&json)).unwrap(), json);
    }

    #[test]
    fn a_whole_number_is_printed_as_one() {
        assert_eq!(from_json(&json!(3)).to_string(), "3");
    }
}
