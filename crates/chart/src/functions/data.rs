//! Functions about lists and maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::{TemplateError, Value};

use super::text::Function;
use super::{Outcome, failure, list_of, string};
use crate::value::list;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("append", append),
    ("concat", concat),
    ("deepCopy", deep_copy),
    ("default", default),
    ("dict", dict),
    ("first", first),
    ("list", |items| Ok(list(items.to_vec()))),
    ("merge", merge),
    ("mergeOverwrite", merge_overwrite),
    ("omit", omit),
    ("prepend", prepend),
    ("ternary", ternary),
    ("uniq", uniq),
];

type Fields = BTreeMap<Arc<str>, Value>;

fn fields_of(value: &Value) -> Result<&Fields, TemplateError> {
    match value {
        Value::Map(fields) => Ok(fields),
        other => Err(failure(format!("{other} is not a map"))),
    }
}

fn map(fields: Fields) -> Value {
    Value::Map(Arc::new(fields))
}

fn dict(arguments: &[Value]) -> Outcome {
    let (pairs, odd) = arguments.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(failure("dict takes names and values in turn"));
    }
    let mut fields = Fields::new();
    for [name, value] in pairs {
        fields.insert(string(name)?.into(), value.clone());
    }
    Ok(map(fields))
}

fn omit(arguments: &[Value]) -> Outcome {
    let [of, names @ ..] = arguments else {
        return Err(failure("omit takes a map and names"));
    };
    let mut fields = fields_of(of)?.clone();
    for name in names {
        fields.remove(string(name)?);
    }
    Ok(map(fields))
}

/// What the first has wins.
fn merge(arguments: &[Value]) -> Outcome {
    let mut merged = Fields::new();
    for value in arguments.iter().rev() {
        lay_over(&mut merged, fields_of(value)?);
    }
    Ok(map(merged))
}

/// What the last has wins.
fn merge_overwrite(arguments: &[Value]) -> Outcome {
    let mut merged = Fields::new();
    for value in arguments {
        lay_over(&mut merged, fields_of(value)?);
    }
    Ok(map(merged))
}

fn lay_over(fields: &mut Fields, over: &Fields) {
    for (name, value) in over {
        let merged = match (fields.get(name), value) {
            (Some(Value::Map(below)), Value::Map(over)) => {
                let mut below = below.as_ref().clone();
                lay_over(&mut below, over);
                Value::Map(Arc::new(below))
            }
            _ => value.clone(),
        };
        fields.insert(Arc::clone(name), merged);
    }
}

/// Values never change here, so that one is as good as its copy.
fn deep_copy(arguments: &[Value]) -> Outcome {
    let [value] = arguments else {
        return Err(failure("deepCopy takes a value"));
    };
    Ok(value.clone())
}

fn default(arguments: &[Value]) -> Outcome {
    match arguments {
        [_, value] if value.is_truthy() => Ok(value.clone()),
        [default, ..] => Ok(default.clone()),
        [] => Err(failure("default takes a default and a value")),
    }
}

fn ternary(arguments: &[Value]) -> Outcome {
    match arguments {
        [yes, _, Value::Bool(true)] => Ok(yes.clone()),
        [_, no, Value::Bool(false)] => Ok(no.clone()),
        _ => Err(failure("ternary takes two values and a truth")),
    }
}

fn append(arguments: &[Value]) -> Outcome {
    let [items, last] = arguments else {
        return Err(failure("append takes a list and a value"));
    };
    let mut items = list_of(items)?.to_vec();
    items.push(last.clone());
    Ok(list(items))
}

fn prepend(arguments: &[Value]) -> Outcome {
    let [items, first] = arguments else {
        return Err(failure("prepend takes a list and a value"));
    };
    let mut items = list_of(items)?.to_vec();
    items.insert(0, first.clone());
    Ok(list(items))
}

fn concat(arguments: &[Value]) -> Outcome {
    let mut items = Vec::new();
    for argument in arguments {
        items.extend_from_slice(list_of(argument)?);
    }
    Ok(list(items))
}

fn first(arguments: &[Value]) -> Outcome {
    let [items] = arguments else {
        return Err(failure("first takes a list"));
    };
    Ok(list_of(items)?.first().cloned().unwrap_or(Value::Nil))
}

fn uniq(arguments: &[Value]) -> Outcome {
    let [items] = arguments else {
        return Err(failure("uniq takes a list"));
    };
    let mut kept: Vec<Value> = Vec::new();
    for item in list_of(items)? {
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    Ok(list(kept))
}
