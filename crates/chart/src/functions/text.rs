//! Functions about text.

use std::sync::Arc;

use gotmpl::Value;

use super::{Outcome, failure, integer, list_of, parsed, shown, string, written};

pub(super) type Function = fn(&[Value]) -> Outcome;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("fail", fail),
    ("fromYaml", from_yaml),
    ("indent", indent),
    ("int", int),
    ("join", join),
    ("kindIs", kind_is),
    ("nindent", nindent),
    ("quote", quote),
    ("sub", sub),
    ("toString", to_string),
    ("toYaml", to_yaml),
    ("trim", trim),
];

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn fail(arguments: &[Value]) -> Outcome {
    Err(failure(arguments.iter().map(shown).collect::<String>()))
}

fn from_yaml(arguments: &[Value]) -> Outcome {
    let [yaml] = arguments else {
        return Err(failure("fromYaml takes a text"));
    };
    match parsed(string(yaml)?)? {
        // Helm's gives a map in any case.
        Value::Nil => Ok(Value::Map(Arc::default())),
        value => Ok(value),
    }
}

fn to_yaml(arguments: &[Value]) -> Outcome {
    let [value] = arguments else {
        return Err(failure("toYaml takes a value"));
    };
    Ok(text(&written(value)?))
}

/// Every line, empty ones too.
fn indent(arguments: &[Value]) -> Outcome {
    let [by, lines] = arguments else {
        return Err(failure("indent takes a number and a text"));
    };
    let by = usize::try_from(integer(by)?).map_err(|error| failure(error.to_string()))?;
    let pad = " ".repeat(by);
    let lines = string(lines)?.replace('\n', &format!("\n{pad}"));
    Ok(text(&format!("{pad}{lines}")))
}

fn nindent(arguments: &[Value]) -> Outcome {
    let indented = indent(arguments)?;
    Ok(text(&format!("\n{}", shown(&indented))))
}

fn int(arguments: &[Value]) -> Outcome {
    let [number] = arguments else {
        return Err(failure("int takes a number"));
    };
    Ok(Value::Int(integer(number)?))
}

fn sub(arguments: &[Value]) -> Outcome {
    let [from, what] = arguments else {
        return Err(failure("sub takes two numbers"));
    };
    Ok(Value::Int(integer(from)? - integer(what)?))
}

fn join(arguments: &[Value]) -> Outcome {
    let [between, items] = arguments else {
        return Err(failure("join takes a text and a list"));
    };
    let items: Vec<_> = list_of(items)?.iter().map(shown).collect();
    Ok(text(&items.join(string(between)?)))
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "one of many functions of this type"
)]
fn quote(arguments: &[Value]) -> Outcome {
    let quoted = arguments.iter().filter(|it| !matches!(it, Value::Nil));
    let quoted: Vec<_> = quoted.map(|it| format!("{:?}", shown(it))).collect();
    Ok(text(&quoted.join(" ")))
}

fn to_string(arguments: &[Value]) -> Outcome {
    let [value] = arguments else {
        return Err(failure("toString takes a value"));
    };
    Ok(text(&shown(value)))
}

fn trim(arguments: &[Value]) -> Outcome {
    let [value] = arguments else {
        return Err(failure("trim takes a text"));
    };
    Ok(text(string(value)?.trim()))
}

/// Names of kinds are Go's.
fn kind_is(arguments: &[Value]) -> Outcome {
    let [wanted, value] = arguments else {
        return Err(failure("kindIs takes the name of a kind and a value"));
    };
    let kind = match value {
        Value::Nil => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Uint(_) => "uint",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) => "map",
        Value::Function(_) => "func",
    };
    Ok(Value::Bool(string(wanted)? == kind))
}
