//! Everything a cluster could leave behind on a machine, as comparable text.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use devcluster::{cgroups, node, places, process};

/// Traces of one cluster, and of the machine where they cannot be told apart by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    processes: BTreeSet<String>,
    mounts: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    links: BTreeSet<String>,
    routes: BTreeSet<String>,
    rules: BTreeSet<String>,
    cgroups: BTreeSet<String>,
    loops: BTreeSet<String>,
    files: BTreeSet<String>,
}

impl Traces {
    /// Looks at the machine with the eyes of the cluster `name`; what belongs to other clusters that run at the
    /// same time is left out by their marks and numbers.
    pub fn of(name: &str, link: &str) -> Self {
        let directory = places::clusters().join(name);
        let below = directory.display().to_string();
        let marked = process::processes_below(&directory);
        let mentions = |line: &&str| line.contains(&below);
        Self {
            processes: marked.iter().map(ToString::to_string).collect(),
            mounts: read("/proc/self/mountinfo")
                .lines()
                .filter(mentions)
                .map(str::to_owned)
                .collect(),
            namespaces: marked
                .iter()
                .filter_map(|pid| namespace_of(pid.as_raw()))
                .collect(),
            links: run(&["ip", "-o", "link"])
                .filter(|l| l.contains(link))
                .collect(),
            routes: run(&["ip", "-o", "route", "show", "table", "all"])
                .filter(|l| l.contains(link))
                .collect(),
            rules: run(&["iptables-save"])
                .filter(|line| !line.starts_with('#') && !line.starts_with(':'))
                .collect(),
            cgroups: cgroups::find(&node::cgroup_prefix(name))
                .iter()
                .map(|p| p.display().to_string())
                .collect(),
            loops: run(&[
                "losetup",
                "--list",
                "--noheadings",
                "--output",
                "NAME,BACK-FILE",
            ])
            .filter(|line| line.contains(&below))
            .collect(),
            files: if directory.exists() {
                BTreeSet::from([below])
            } else {
                BTreeSet::new()
            },
        }
    }

    /// Whether a running cluster shows in every kind of trace that it must have: the comparison can fail.
    pub fn show_a_running_cluster(&self) -> bool {
        !self.processes.is_empty()
            && !self.namespaces.is_empty()
            && !self.links.is_empty()
            && !self.routes.is_empty()
            && !self.cgroups.is_empty()
            && !self.files.is_empty()
    }
}

fn namespace_of(pid: i32) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
    Some(link.display().to_string())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn run(command: &[&str]) -> impl Iterator<Item = String> {
    let output = Command::new(command[0])
        .args(&command[1..])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .into_iter()
}
