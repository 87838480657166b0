//! What is written from the charts: schemas, tables of values, the values of the second chart, and the plain manifests of `deploy/`.

mod olm;
mod plain;

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use serde_json::Value;
use stowage_chart::comments::{self, Documented};

use crate::workspace;

pub const STOWAGE: &str = "charts/stowage";
pub const WEKA: &str = "charts/csi-wekafsplugin";

/// Sections of the chart stowage that are the values of the other one.
const WEKA_SECTION: &[&str] = &["drivers", "weka"];
/// Values of the section that its release decides.
const OF_RELEASE: [&str; 3] = ["enabled", "name", "namespace"];

const WEKA_HEADER: &str = "\
# Every value, with its default, under the names of WEKA's own chart. Written from `drivers.weka` in the values of the chart stowage
# by `./x check --fix`: do not edit.
";

/// Values of the chart that it brings along, which a release may want to change.
const WEKA_FOOTER: &str = "
# The chart that this one brings along: operator, images, definitions. Its values are in its own README.
# -- Values of the chart stowage, such as `operator.enabled: false` where the operator runs already
# @schema {\"additionalProperties\": true}
stowage: {}
";

/// Each file with what it should hold. Files that others are made of come first.
pub fn files() -> anyhow::Result<Vec<(String, String)>> {
    let root = workspace::root();
    let values = read(&root, &format!("{STOWAGE}/values.yaml"))?;
    let weka = format!("{WEKA_HEADER}\n{}{WEKA_FOOTER}", section(&values)?);
    let mut files = vec![(format!("{STOWAGE}/files/definitions.yaml"), definitions()?)];
    files.extend(of_values(STOWAGE, "stowage", &values)?);
    files.push((format!("{WEKA}/values.yaml"), weka.clone()));
    files.extend(of_values(WEKA, "csi-wekafsplugin", &weka)?);
    Ok(files)
}

/// What is rendered from the charts, once the files above are as they should be.
pub fn rendered() -> anyhow::Result<Vec<(String, String)>> {
    plain::files()
}

fn read(root: &Path, file: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read `{file}`"))
}

/// Schema and table of a chart's values.
fn of_values(chart: &str, name: &str, values: &str) -> anyhow::Result<Vec<(String, String)>> {
    let wrong = |reason: String| anyhow!("{chart}/values.yaml: {reason}");
    let documented = comments::read(values).map_err(wrong)?;
    let schema = comments::schema(&documented, &[]);
    Ok(vec![
        (
            format!("{chart}/values.schema.json"),
            serde_json::to_string_pretty(&schema)? + "\n",
        ),
        (format!("{chart}/README.md"), readme(name, &documented)),
    ])
}

fn readme(name: &str, values: &[Documented]) -> String {
    let about = match name {
        "stowage" => {
            "The operator, and drivers by value. Installing, upgrading, uninstalling: [docs/guides/install.md](../../docs/guides/install.md).\n\n\
             ```\nhelm install stowage charts/stowage --namespace csi-operator --create-namespace --set drivers.hostpath.enabled=true\n```"
        }
        _ => {
            "The driver for Weka under the names and values of WEKA's own chart; it brings the operator along and takes the place of a release of \
             that chart by an upgrade. More: [docs/guides/weka.md](../../docs/guides/weka.md).\n\n\
             ```\nhelm install csi-wekafs charts/csi-wekafsplugin --namespace csi-wekafs --create-namespace\n```"
        }
    };
    let table = comments::table(values);
    format!(
        "# Chart `{name}`\n\n{about}\n\n## Values\n\nWritten from the comments in `values.yaml` by `./x check --fix`: do not edit.\n\n{table}"
    )
}

/// The values of the second chart: a section of the first one's, with its comments, moved to the left.
fn section(values: &str) -> anyhow::Result<String> {
    let mut lines = values.lines();
    for name in WEKA_SECTION {
        let start = format!("{name}:");
        lines
            .find(|line| line.trim() == start)
            .with_context(|| format!("values have no section `{name}`"))?;
    }
    let indent = "  ".repeat(WEKA_SECTION.len());
    let mut text = String::new();
    let mut comments = Vec::new();
    for line in lines {
        if line.is_empty() {
            break;
        }
        let line = line
            .strip_prefix(&indent)
            .with_context(|| format!("`{line}` is not in the section"))?;
        if line.starts_with('#') {
            comments.push(line);
            continue;
        }
        let left_out = OF_RELEASE
            .iter()
            .any(|it| line.starts_with(&format!("{it}:")));
        for comment in comments.drain(..).filter(|_| !left_out) {
            text.push_str(&format!("{comment}\n"));
        }
        if !left_out {
            text.push_str(&format!("{line}\n"));
        }
    }
    Ok(text)
}

/// Names of all definitions: hooks may change these, and no others.
fn definitions() -> anyhow::Result<String> {
    let mut names = Vec::new();
    let directory = workspace::root().join("deploy/crds");
    for entry in fs::read_dir(&directory)? {
        let text = fs::read_to_string(entry?.path())?;
        let documents = text.split("\n---\n");
        let name = |document: &str| {
            document
                .lines()
                .find_map(|line| line.strip_prefix("  name: ").map(ToOwned::to_owned))
        };
        names.extend(documents.filter_map(name));
    }
    names.sort();
    let lines: Vec<_> = names.iter().map(|name| format!("- {name}\n")).collect();
    Ok(lines.concat())
}

/// Values of a person's own.
fn own(text: &str) -> anyhow::Result<Value> {
    serde_json::from_str(text).context("values of a plain manifest")
}
