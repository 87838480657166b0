//! Is this a machine a cluster can run on? Everything is asked before anything is changed.

use std::fs;
use std::path::Path;

use nix::unistd::geteuid;

use crate::error::{Result, refused};
use crate::places;

/// Free disk that a warm start needs.
const WARM_DISK_MB: u64 = 1_500;
/// Free disk that building Kubernetes needs on top.
const BUILD_DISK_MB: u64 = 5_000;
/// Memory of the control plane, and of one node.
const CONTROL_PLANE_MB: u64 = 700;
const NODE_MB: u64 = 250;

/// What a cluster is going to ask of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Number of nodes.
    pub nodes: usize,
    /// Whether Kubernetes has to be built first.
    pub build: bool,
}

/// What the machine is, as far as a decision needs it.
#[derive(Clone, Debug)]
pub struct Machine {
    root: bool,
    os: String,
    debian_12: bool,
    free_disk_mb: u64,
    available_memory_mb: u64,
}

impl Machine {
    /// Looks at this machine.
    pub fn observe() -> Self {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let field = |name: &str| {
            release
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
                .map(|value| value.trim_matches('"').to_owned())
                .unwrap_or_default()
        };
        Self {
            root: geteuid().is_root(),
            os: field("PRETTY_NAME"),
            debian_12: field("ID") == "debian" && field("VERSION_ID") == "12",
            free_disk_mb: free_disk_mb(&places::cache()),
            available_memory_mb: available_memory_mb(),
        }
    }

    /// Refuses, with the remedy, what this machine cannot carry.
    pub fn check(&self, demand: Demand) -> Result<()> {
        if !self.root {
            return refused(
                "a cluster makes namespaces, mounts and network links, so it needs root: run `sudo ./x ...`",
            );
        }
        if !self.debian_12 {
            let os = if self.os.is_empty() {
                "not Debian 12"
            } else {
                &self.os
            };
            return refused(format!(
                "the dev cluster is made from Debian 12's packages and this is {os}: use a Debian 12 machine, \
                 or set STOWAGE_KUBECONFIG to the kubeconfig of a cluster you have (`./x test`, `./x demo`)"
            ));
        }
        let disk = WARM_DISK_MB + if demand.build { BUILD_DISK_MB } else { 0 };
        if self.free_disk_mb < disk {
            return refused(format!(
                "{} MB of disk are free below `{}` and {disk} are needed: free some, or point XDG_CACHE_HOME \
                 and XDG_STATE_HOME at a larger disk",
                self.free_disk_mb,
                places::cache().display()
            ));
        }
        let memory = CONTROL_PLANE_MB + NODE_MB * demand.nodes as u64;
        if self.available_memory_mb < memory {
            return refused(format!(
                "{} MB of memory are available and {} nodes need {memory}: ask for fewer with `--nodes`, or end \
                 other programs",
                self.available_memory_mb, demand.nodes
            ));
        }
        Ok(())
    }
}

fn free_disk_mb(path: &Path) -> u64 {
    // The directory may not exist yet: its nearest parent that does is on the same disk.
    let existing = path
        .ancestors()
        .find(|p| p.exists())
        .unwrap_or(Path::new("/"));
    nix::sys::statvfs::statvfs(existing)
        .map(|s| s.blocks_available() * s.fragment_size() / 1_000_000)
        .unwrap_or_default()
}

fn available_memory_mb() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    info.lines()
        .find_map(|line| {
            line.strip_prefix("MemAvailable:")?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        })
        .map(|kib| kib * 1024 / 1_000_000)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Machine {
        Machine {
            root: true,
            os: "Debian GNU/Linux 12 (bookworm)".to_owned(),
            debian_12: true,
            free_disk_mb: 50_000,
            available_memory_mb: 16_000,
        }
    }

    const TWO_NODES: Demand = Demand {
        nodes: 2,
        build: true,
    };

    fn refusal(machine: &Machine) -> String {
        machine.check(TWO_NODES).unwrap_err().to_string()
    }

    #[test]
    fn a_good_machine_is_accepted() {
        good().check(TWO_NODES).unwrap();
    }

    #[test]
    fn each_shortcoming_is_named_with_its_remedy() {
        assert!(
            refusal(&Machine {
                root: false,
                ..good()
            })
            .contains("sudo ./x")
        );
        let fedora = Machine {
            debian_12: false,
            os: "Fedora 41".to_owned(),
            ..good()
        };
        assert!(refusal(&fedora).contains("this is Fedora 41"));
        assert!(refusal(&fedora).contains("STOWAGE_KUBECONFIG"));
        let full = Machine {
            free_disk_mb: 2_000,
            ..good()
        };
        assert!(refusal(&full).contains("2000 MB of disk are free"));
        full.check(Demand {
            nodes: 2,
            build: false,
        })
        .unwrap();
        let small = Machine {
            available_memory_mb: 1_000,
            ..good()
        };
        assert!(refusal(&small).contains("fewer with `--nodes`"));
        small
            .check(Demand {
                nodes: 1,
                build: true,
            })
            .unwrap();
    }

    #[test]
    fn this_machine_can_be_observed() {
        let here = Machine::observe();
        assert!(
            here.available_memory_mb > 0 && here.free_disk_mb > 0,
            "{here:?}"
        );
    }
}
