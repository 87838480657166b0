//! What `./x test` leaves out on a cluster of the user's own, and why.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

const NODES: &str = "starts, stops or kills nodes";
const CLUSTERS: &str = "makes clusters of its own, or tries to";
const INSIDE: &str = "looks at files, mounts or processes of the nodes, which are this machine's";
const ARRAYS: &str = "runs simulated arrays beside the nodes, on this machine";

/// The files of `tests/dev_cluster` that have tests.
const REASONS: [(&str, &str); 29] = [
    ("bad_input", CLUSTERS),
    ("charts", CLUSTERS),
    ("demo", CLUSTERS),
    ("documented", CLUSTERS),
    ("draining", CLUSTERS),
    ("hostpath", INSIDE),
    ("hostpath_shapes", INSIDE),
    ("isolation", INSIDE),
    ("killed", INSIDE),
    ("life", INSIDE),
    ("lifecycle", CLUSTERS),
    ("node_loss", NODES),
    ("operator_trouble", INSIDE),
    ("outage", CLUSTERS),
    ("sidecar", INSIDE),
    ("upgrade", CLUSTERS),
    ("vpsa", ARRAYS),
    ("weka", ARRAYS),
    ("weka_backings", ARRAYS),
    ("weka_chart_upgrade", CLUSTERS),
    ("weka_clients", ARRAYS),
    ("weka_clusters", ARRAYS),
    ("weka_guarded", ARRAYS),
    ("weka_nfs", ARRAYS),
    ("weka_old", ARRAYS),
    ("weka_secure", ARRAYS),
    ("weka_selinux", ARRAYS),
    ("weka_shared", ARRAYS),
    ("weka_takeover", ARRAYS),
];

/// What was left out.
pub struct List {
    pub count: usize,
    pub text: String,
}

/// How many tests were left out, by file, and why.
pub fn list(project: &Path) -> anyhow::Result<List> {
    let (mut lines, mut all) = (String::new(), 0);
    for (file, reason) in REASONS {
        let count = tests_in(project, file)?;
        all += count;
        if count > 0 {
            writeln!(lines, "  {count:>3}  tests/dev_cluster/{file}.rs: {reason}")?;
        }
    }
    Ok(List {
        count: all,
        text: format!("Left out on this cluster: {all} tests.\n{lines}"),
    })
}

fn tests_in(project: &Path, file: &str) -> anyhow::Result<usize> {
    let path = project.join("tests/dev_cluster").join(format!("{file}.rs"));
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(text.lines().filter(|line| line.trim() == "#[test]").count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    #[test]
    fn every_file_with_tests_has_its_reason() {
        for entry in std::fs::read_dir(root().join("tests/dev_cluster")).unwrap() {
            let path = entry.unwrap().path();
            let Some(file) = path.file_stem().and_then(|file| file.to_str()) else {
                continue;
            };
            if path.is_dir() || path.extension().is_none_or(|it| it != "rs") {
                continue;
            }
            let has_reason = REASONS.iter().any(|(name, _)| *name == file);
            let has_tests = tests_in(&root(), file).unwrap() > 0;
            assert!(
                has_reason || !has_tests,
                "{file}.rs has tests and no reason"
            );
        }
        let said = list(&root()).unwrap().text;
        assert!(
            said.contains("tests/dev_cluster/node_loss.rs: starts, stops"),
            "{said}"
        );
    }
}
