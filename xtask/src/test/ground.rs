//! What tests stand on before they run: programs, Kubernetes, a cluster with our images.

use std::path::Path;
use std::thread;

use anyhow::anyhow;
use devcluster::cluster::{Cluster, Wanted};
use devcluster::testing::CLUSTER_VARIABLE;
use devcluster::{debian, schemas};

use super::nextest::{self, Listed};
use super::results::Results;
use super::{CLUSTER, NODES, Tests, UPGRADES, WITH_PODS};
use crate::image::Binary;
use crate::workspace::{self, say};
use crate::{check, image, previous};

impl Tests<'_> {
    /// What needs a compiler, in the order in which it fails soonest; each graph is built once.
    fn build(&mut self) -> anyhow::Result<Listed> {
        let (profile, report) = (&self.profile, self.report);
        profile.stage("cargo-nextest", || nextest::ensure(report))?;
        let checks = !self.options.no_check && self.options.repeat.is_none();
        if checks {
            profile.stage("Lints", || check::lints(report))?;
        }
        profile.stage("The binary", || workspace::build_debug(report))?;
        if checks {
            profile.stage("Generated files", || check::generated::check(false, report))?;
        }
        let listed = profile.stage("Building the tests", || Listed::of(&self.selection, report))?;
        if listed.has(UPGRADES)
            && !profile.stage("The release before", || previous::ensure_binary(report))?
        {
            let upgrades = listed
                .chosen
                .iter()
                .filter(|test| test.starts_with(UPGRADES));
            let reason =
                "upgrades from the release before this one, which this clone does not have";
            self.left_out.insert(reason.to_owned(), upgrades.count());
            self.selection
                .conditions
                .push("not test(/^dev_cluster::upgrade::/)".to_owned());
        }
        Ok(listed)
    }

    /// Side by side: what is fetched and built elsewhere keeps a core idle for minutes.
    pub(super) fn set_up(&mut self) -> anyhow::Result<Listed> {
        let report = self.report;
        thread::scope(|scope| {
            let servers = scope.spawn(|| -> anyhow::Result<()> {
                // What needs them is left out without root, and nobody else may install them.
                if nix::unistd::geteuid().is_root() {
                    debian::install_missing(debian::FOR_DRIVERS, report)?;
                }
                debian::install_missing(debian::FOR_PAGES, report)?;
                schemas::ensure(report)?;
                workspace::ensure_servers(report)
            });
            // What is wrong with it is told before what else may be.
            let listed = self.build()?;
            let servers = self
                .profile
                .stage("Packages and Kubernetes, beside it", || servers.join());
            servers.map_err(|_| anyhow!("fetching Kubernetes panicked"))??;
            Ok(listed)
        })
    }

    pub(super) fn on_own_cluster(&self, kubeconfig: &Path) -> anyhow::Result<Results> {
        say(&format!("On the cluster of {}.", kubeconfig.display()));
        let archive = image::build(Binary::Release, self.report)?;
        say(&image::must_be_on_the_nodes(&archive));
        self.play(&self.selection, |_| {})
    }

    /// Walks with pods come last and have the machine to themselves: what they leave running until their cluster is taken down would
    /// slow the others down, and beside those a lease of theirs is lost.
    pub(super) fn parts_and_dev_cluster(&self, listed: &Listed) -> anyhow::Result<Results> {
        let mut results = Results::default();
        if listed
            .chosen
            .iter()
            .any(|test| !test.starts_with(WITH_PODS))
        {
            let parts = self.selection.and("not package(stowage-tests)");
            results = self.play(&parts, |_| {})?;
        }
        let with_pods = self.on_dev_cluster()?;
        results.add(with_pods);
        Ok(results)
    }

    fn on_dev_cluster(&self) -> anyhow::Result<Results> {
        let report = self.report;
        let cluster = Cluster::named(CLUSTER)?;
        let prepared = self.profile.stage("Cluster and images", || {
            self.prepare(&cluster, &self.program)
        });
        let results = prepared.and_then(|()| {
            let with_pods = self.selection.and("package(stowage-tests)");
            self.play(&with_pods, |command| {
                command
                    .env(CLUSTER_VARIABLE, CLUSTER)
                    .env("STOWAGE_X", &self.program);
            })
        });
        if results
            .as_ref()
            .map_or(true, |results| !results.failed().is_empty())
        {
            keep_logs(&cluster);
        }
        self.profile.stage("Taking clusters down", || {
            if self.options.keep {
                say(&format!(
                    "The cluster stays: ./x kubectl --cluster {CLUSTER} ..., ./x down --cluster {CLUSTER}"
                ));
            } else {
                cluster.down(report)?;
            }
            // Clusters that single tests made for themselves are gone, unless the tests were killed.
            let all = Cluster::all()?;
            for left in all.iter().filter(|left| left.name().starts_with("test-")) {
                left.down(report)?;
            }
            anyhow::Ok(())
        })?;
        results
    }

    fn prepare(&self, cluster: &Cluster, program: &Path) -> anyhow::Result<()> {
        let report = self.report;
        let two_nodes = Wanted {
            nodes: Some(NODES),
            ..Wanted::default()
        };
        cluster.up(&two_nodes, program, report)?;
        image::build(Binary::Debug, report)?;
        let archive = image::for_tests(report)?;
        image::load(CLUSTER, &archive, report)?;
        image::build_and_load_simulator(CLUSTER, report)?;
        if previous::is_there() {
            previous::write_image(report)?;
        }
        Ok(())
    }
}

/// What the daemons said, out of the way of the clean-up.
fn keep_logs(cluster: &Cluster) {
    let to = workspace::target().join("test-logs");
    let _ = std::fs::remove_dir_all(&to);
    copy_logs(cluster.directory(), &to);
    say(&format!("Logs of the cluster: {}", to.display()));
}

fn copy_logs(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let path = entry.path();
        // Containers' own files are too many and say too little.
        let skipped = ["lib", "tmp", "etcd", "pki"]
            .iter()
            .any(|name| entry.file_name() == *name);
        if path.is_dir() && !skipped {
            copy_logs(&path, &to.join(entry.file_name()));
        } else if path.extension().is_some_and(|e| e == "log") {
            let _ = std::fs::create_dir_all(to);
            let _ = std::fs::copy(&path, to.join(entry.file_name()));
        }
    }
}
