//! The functions of Helm and sprig that our charts use. Those of them that change their first argument in Go return a changed copy
//! here: our charts use the result only.

mod data;
mod text;

use std::sync::{Arc, OnceLock};

use gotmpl::{FuncMap, Template, TemplateError, Value, ValueFunc};

use crate::value::{from_json, to_json};
use crate::yaml;

/// Asks a cluster for an object: API version, kind, namespace, name. Without a cluster there is none.
pub type Lookup = Arc<dyn Fn(&str, &str, &str, &str) -> Option<serde_json::Value> + Send + Sync>;

type Outcome = Result<Value, TemplateError>;

/// All of them. `templates` is filled once every template is parsed: `include` calls them by name.
pub fn all(templates: &Arc<OnceLock<Template>>, lookup: Lookup) -> FuncMap {
    let mut functions = FuncMap::new();
    for (name, function) in text::FUNCTIONS.iter().chain(data::FUNCTIONS) {
        let function = *function;
        functions.insert((*name).to_owned(), Arc::new(function));
    }
    functions.insert("include".to_owned(), include(Arc::clone(templates)));
    functions.insert("lookup".to_owned(), look_up(lookup));
    functions
}

fn include(templates: Arc<OnceLock<Template>>) -> ValueFunc {
    Arc::new(move |arguments| {
        let [name, data] = arguments else {
            return Err(failure("include takes a name and a context"));
        };
        let templates = templates
            .get()
            .ok_or_else(|| failure("include before all templates are parsed"))?;
        let text = templates.execute_template_to_string(string(name)?, data)?;
        Ok(Value::String(text.into()))
    })
}

fn look_up(lookup: Lookup) -> ValueFunc {
    Arc::new(move |arguments| {
        let [version, kind, namespace, name] = arguments else {
            return Err(failure(
                "lookup takes API version, kind, namespace and name",
            ));
        };
        let found = lookup(
            string(version)?,
            string(kind)?,
            string(namespace)?,
            string(name)?,
        );
        Ok(from_json(&found.unwrap_or_else(|| serde_json::json!({}))))
    })
}

fn failure(text: impl Into<String>) -> TemplateError {
    TemplateError::Exec(text.into())
}

fn string(value: &Value) -> Result<&str, TemplateError> {
    value
        .as_str()
        .ok_or_else(|| failure(format!("{value} is not text")))
}

/// As text, whatever it is.
fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// An integer, of whatever kind of number.
#[allow(
    clippy::cast_possible_truncation,
    reason = "numbers of values are small"
)]
fn integer(value: &Value) -> Result<i64, TemplateError> {
    match value {
        Value::Int(it) => Ok(*it),
        Value::Float(it) => Ok(*it as i64),
        other => Err(failure(format!("{other} is not a number"))),
    }
}

fn list_of(value: &Value) -> Result<&[Value], TemplateError> {
    match value {
        Value::List(items) => Ok(items),
        other => Err(failure(format!("{other} is not a list"))),
    }
}

fn parsed(text: &str) -> Outcome {
    Ok(from_json(&yaml::read(text).map_err(failure)?))
}

fn written(value: &Value) -> Result<String, TemplateError> {
    yaml::write(&to_json(value).map_err(failure)?).map_err(failure)
}

#[cfg(test)]
mod tests;
