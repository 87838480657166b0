//! A chart as it lies in a directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::yaml;

/// A chart, and those that it brings along.
#[derive(Clone, Debug)]
pub struct Chart {
    /// `Chart.yaml`.
    pub metadata: Value,
    /// `values.yaml`.
    pub values: Value,
    /// `values.schema.json`.
    pub schema: Value,
    /// What is in `templates/`, by its path in the chart.
    pub templates: BTreeMap<String, String>,
    /// Further files that templates read, by their path in the chart.
    pub files: BTreeMap<String, String>,
    /// The charts in `charts/`.
    pub dependencies: Vec<Chart>,
}

impl Chart {
    /// Reads it.
    pub fn load(directory: &Path) -> Result<Self> {
        let chart = Self {
            metadata: read_yaml(&directory.join("Chart.yaml"))?,
            values: read_yaml(&directory.join("values.yaml"))?,
            schema: read_yaml(&directory.join("values.schema.json"))?,
            templates: texts(directory, "templates")?,
            files: texts(directory, "files")?,
            dependencies: dependencies(&directory.join("charts"))?,
        };
        chart.check_dependencies(directory)?;
        Ok(chart)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata["name"].as_str().unwrap_or_default()
    }

    /// Its version.
    pub fn version(&self) -> &str {
        self.metadata["version"].as_str().unwrap_or_default()
    }

    /// Helm refuses a chart whose `Chart.yaml` names others than those that are there.
    fn check_dependencies(&self, directory: &Path) -> Result<()> {
        let wanted = self.metadata["dependencies"].as_array();
        let wanted = wanted.map(Vec::as_slice).unwrap_or_default();
        let wanted: Vec<_> = wanted
            .iter()
            .map(|it| (&it["name"], &it["version"]))
            .collect();
        let there = self.dependencies.iter();
        let there: Vec<_> = there
            .map(|it| (&it.metadata["name"], &it.metadata["version"]))
            .collect();
        if wanted == there {
            return Ok(());
        }
        Err(Error::Malformed {
            path: directory.join("Chart.yaml"),
            reason: format!("names the dependencies {wanted:?}, and charts/ has {there:?}"),
        })
    }
}

fn dependencies(directory: &Path) -> Result<Vec<Chart>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut charts = Vec::new();
    for path in entries(directory)? {
        charts.push(Chart::load(&path)?);
    }
    Ok(charts)
}

/// The files below a directory of the chart, by their path in it.
fn texts(chart: &Path, below: &str) -> Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    let directory = chart.join(below);
    if !directory.is_dir() {
        return Ok(texts);
    }
    for path in entries(&directory)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{below}/{name}");
        if path.is_dir() {
            texts.extend(self::texts(chart, &name)?);
        } else {
            texts.insert(name, read(&path)?);
        }
    }
    Ok(texts)
}

/// What is in a directory, in the order of names.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |source| Error::Unreadable {
        path: directory.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| Error::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// A file of values, as a person writes one.
pub fn read_yaml(path: &Path) -> Result<Value> {
    yaml::read(&read(path)?).map_err(|reason| Error::Malformed {
        path: path.to_owned(),
        reason,
    })
}
