//! The charts as archives, and the index that makes a directory of them a repository.

use anyhow::{Context, ensure};
use devcluster::checksums;
use serde_json::{Value, json};
use stowage_chart::chart::Chart;

use super::archive::Files;
use crate::workspace;

const CHARTS: [&str; 2] = ["stowage", "csi-wekafsplugin"];

/// A chart, packed.
pub struct Packed {
    /// `NAME-VERSION.tgz`.
    pub file: String,
    /// The archive.
    pub content: Vec<u8>,
    metadata: Value,
}

/// All charts.
pub fn pack() -> anyhow::Result<Vec<Packed>> {
    CHARTS.iter().map(|name| packed(name)).collect()
}

fn packed(name: &str) -> anyhow::Result<Packed> {
    let directory = workspace::root().join("charts").join(name);
    let chart = Chart::load(&directory)?;
    for (what, is) in [
        ("name", chart.name() == name),
        ("version", chart.version() == env!("CARGO_PKG_VERSION")),
    ] {
        ensure!(
            is,
            "charts/{name}/Chart.yaml: `{what}` is not that of this release"
        );
    }
    let mut files = Files::default();
    files.put_directory(name, &directory)?;
    Ok(Packed {
        file: format!("{name}-{}.tgz", chart.version()),
        content: files.tar_gz()?,
        metadata: chart.metadata,
    })
}

/// `index.yaml` of a repository in which the archives lie beside it. `made` is when this source was committed.
pub fn index(charts: &[Packed], made: &str) -> anyhow::Result<String> {
    let mut entries = json!({});
    for chart in charts {
        let mut entry = chart.metadata.clone();
        entry["created"] = json!(made);
        entry["digest"] = json!(checksums::of(&chart.content));
        entry["urls"] = json!([chart.file]);
        let name = entry["name"]
            .as_str()
            .context("a chart has a name")?
            .to_owned();
        entries[name] = json!([entry]);
    }
    let index = json!({"apiVersion": "v1", "entries": entries, "generated": made});
    Ok(stowage_chart::to_yaml(&index)? + "\n")
}
