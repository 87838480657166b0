//! The charts as archives, and the index that makes a directory of them a repository.

use std::path::Path;

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
    pack_from(&workspace::root().join("charts"))
}

fn pack_from(charts: &Path) -> anyhow::Result<Vec<Packed>> {
    CHARTS.iter().map(|name| packed(charts, name)).collect()
}

fn packed(charts: &Path, name: &str) -> anyhow::Result<Packed> {
    let directory = charts.join(name);
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use devcluster::process::capture;

    use super::*;

    /// A checkout of somebody else: other times, other modes, and files where ours has links.
    #[test]
    fn another_copy_of_the_charts_gives_the_same_archives_and_the_same_index() {
        let copy = tempfile::tempdir().unwrap();
        let ours = workspace::root().join("charts");
        let mut cp = Command::new("cp");
        cp.args(["--recursive", "--dereference", "--no-preserve=all"]);
        capture(cp.arg(ours.join(".")).arg(copy.path())).unwrap();
        let mut chmod = Command::new("chmod");
        capture(chmod.args(["--recursive", "go-rwx"]).arg(copy.path())).unwrap();

        let (one, other) = (pack().unwrap(), pack_from(copy.path()).unwrap());
        assert_eq!(one.len(), CHARTS.len());
        for (one, other) in one.iter().zip(&other) {
            assert_eq!(one.file, other.file);
            assert_eq!(checksums::of(&one.content), checksums::of(&other.content));
        }
        let made = "2026-11-17T00:00:00Z";
        let text = index(&one, made).unwrap();
        assert_eq!(text, index(&other, made).unwrap());
        assert!(text.contains(&checksums::of(&one[0].content)), "{text}");
    }
}
