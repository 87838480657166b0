//! Templates to text.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use gotmpl::{FuncMap, MissingKey, Template, Value};
use serde_json::{Value as Json, json};

use crate::chart::Chart;
use crate::error::{Error, Result};
pub use crate::functions::Lookup;
use crate::value::from_json;
use crate::{functions, schema, values};

/// The one template that is for people.
const NOTES: &str = "templates/NOTES.txt";

/// What a release is called, and how it came to be.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its revision; the first one is an installation.
    pub revision: u32,
}

impl Identity {
    /// A release that is installed.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            revision: 1,
        }
    }
}

/// What a chart comes to.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The text of each template that has any, by its path in the chart.
    pub texts: BTreeMap<String, String>,
    /// What the person is told.
    pub notes: String,
}

/// A chart with its values, ready to be rendered.
pub struct Templates {
    parsed: Arc<OnceLock<Template>>,
    functions: FuncMap,
    /// For each template that is rendered: its path, and the context of its chart.
    wanted: Vec<(String, Value)>,
    context: Value,
}

/// No cluster to ask: as `helm template` has none.
pub fn no_cluster() -> Lookup {
    Arc::new(|_, _, _, _| None)
}

/// Renders a chart.
pub fn render(chart: &Chart, own: &Json, of: &Identity, lookup: Lookup) -> Result<Rendered> {
    Templates::of(chart, own, of, lookup)?.render()
}

impl Templates {
    /// Puts a chart and a person's own values together. Values that the schema does not allow are refused.
    pub fn of(chart: &Chart, own: &Json, of: &Identity, lookup: Lookup) -> Result<Self> {
        let values = values::of(chart, own);
        check(chart, &values)?;
        let parsed = Arc::new(OnceLock::new());
        let functions = functions::all(&parsed, lookup);
        let mut templates = Template::new(chart.name())
            .missing_key(MissingKey::Error)
            .funcs(functions.clone());
        let mut wanted = Vec::new();
        for (path, chart, values) in all(chart, &values) {
            let context = context(chart, values, of);
            for (name, text) in &chart.templates {
                let name = format!("{path}/{name}");
                templates = parse(templates, &functions, &name, &files_by_index(chart, text)?)?;
                if !name.contains("/_") {
                    wanted.push((name, context.clone()));
                }
            }
        }
        let _ = parsed.set(templates);
        Ok(Self {
            parsed,
            functions,
            wanted,
            context: context(chart, &values, of),
        })
    }

    /// Renders all of them.
    pub fn render(&self) -> Result<Rendered> {
        let mut texts = BTreeMap::new();
        let mut notes = String::new();
        for (name, context) in &self.wanted {
            let templates = self.parsed.get().ok_or_else(|| of_template(name)("lost"))?;
            let text = templates
                .execute_template_to_string(name, context)
                .map_err(|error| of_template(name)(&error.to_string()))?;
            if name.ends_with(NOTES) {
                // Those of charts that are brought along are not shown.
                if name.matches("/charts/").count() == 0 {
                    notes = text;
                }
            } else if !text.trim().is_empty() {
                texts.insert(name.clone(), text.trim_start_matches('\n').to_owned());
            }
        }
        Ok(Rendered { texts, notes })
    }

    /// What a text that calls templates of the chart comes to.
    pub fn text(&self, source: &str) -> Result<String> {
        let named = of_template(source);
        let parsed = Template::new("text")
            .missing_key(MissingKey::Error)
            .funcs(self.functions.clone())
            .parse(source)
            .map_err(|error| named(&error.to_string()))?;
        parsed
            .execute_to_string(&self.context)
            .map_err(|error| named(&error.to_string()))
    }
}

fn of_template(name: &str) -> impl Fn(&str) -> Error {
    let name = name.to_owned();
    move |reason| Error::Template {
        name: name.clone(),
        reason: reason.to_owned(),
    }
}

/// A chart and those that it brings along, each with its path and its own values.
fn all<'a>(chart: &'a Chart, values: &'a Json) -> Vec<(String, &'a Chart, &'a Json)> {
    let mut charts = vec![(chart.name().to_owned(), chart, values)];
    for dependency in &chart.dependencies {
        let name = dependency.name();
        charts.push((
            format!("{}/charts/{name}", chart.name()),
            dependency,
            &values[name],
        ));
    }
    charts
}

fn check(chart: &Chart, values: &Json) -> Result<()> {
    let mut text = String::new();
    for (_, chart, values) in all(chart, values) {
        let found = schema::violations(&chart.schema, values);
        if !found.is_empty() {
            text.push_str(&format!("{}:\n- {}\n", chart.name(), found.join("\n- ")));
        }
    }
    match text.trim_end() {
        "" => Ok(()),
        text => Err(Error::Values(text.to_owned())),
    }
}

fn context(chart: &Chart, values: &Json, of: &Identity) -> Value {
    let metadata = &chart.metadata;
    let first = of.revision == 1;
    from_json(&json!({
        "Values": values,
        "Release": {
            "Name": of.name, "Namespace": of.namespace, "Service": "Helm", "Revision": of.revision,
            "IsInstall": first, "IsUpgrade": !first,
        },
        "Chart": {
            "Name": metadata["name"], "Version": metadata["version"], "AppVersion": metadata["appVersion"],
        },
        "Files": chart.files,
    }))
}

/// Adds a file's template, and those that it defines, to the others.
fn parse(mut templates: Template, functions: &FuncMap, name: &str, text: &str) -> Result<Template> {
    let file = Template::new(name)
        .funcs(functions.clone())
        .parse(text)
        .map_err(|error| of_template(name)(&error.to_string()))?;
    for defined in file.templates() {
        if let Some(tree) = file.lookup(defined) {
            templates = templates.add_parse_tree(defined, tree.clone());
        }
    }
    Ok(templates)
}

/// `.Files.Get "name"` calls a method in Go; here `.Files` is a map. A file that is not there is an error, which Helm does not make of it.
fn files_by_index(chart: &Chart, text: &str) -> Result<String> {
    const CALL: &str = ".Files.Get \"";
    let mut rest = text;
    let mut changed = String::new();
    while let Some(at) = rest.find(CALL) {
        let before = &rest[..at];
        let object = before
            .rfind(|it: char| it.is_whitespace() || it == '(')
            .map_or(0, |it| it + 1);
        let (name, after) = rest[at + CALL.len()..].split_once('"').unwrap_or(("", ""));
        if !chart.files.contains_key(name) {
            let reason = format!("reads `{name}`, which the chart does not have");
            return Err(of_template(chart.name())(&reason));
        }
        changed.push_str(&before[..object]);
        changed.push_str(&format!("(index {}.Files \"{name}\")", &before[object..]));
        rest = after;
    }
    changed.push_str(rest);
    Ok(changed)
}
