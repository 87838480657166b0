//! The cluster that end-to-end tests run on, and their namespaces in it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::cluster::Cluster;
use crate::error::{Result, refused};
use crate::kubernetes::{Kubernetes, kubectl, kubectl_program};
use crate::process::{capture, feed, wait_until};

/// Where a test that needs a whole cluster finds its name; set by `./x test`.
pub const CLUSTER_VARIABLE: &str = "STOWAGE_TEST_CLUSTER";
/// A cluster of the user's own, instead.
pub const KUBECONFIG_VARIABLE: &str = "STOWAGE_KUBECONFIG";

/// The whole cluster that end-to-end tests run on: the one `./x test` made, or the user's own.
pub struct TestCluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    dev: Option<Cluster>,
}

impl TestCluster {
    /// Finds it.
    pub fn get() -> Result<Self> {
        if let Some(own) = env::var_os(KUBECONFIG_VARIABLE).filter(|v| !v.is_empty()) {
            return Ok(Self {
                kubectl: kubectl_program(),
                kubeconfig: PathBuf::from(own),
                dev: None,
            });
        }
        let Ok(name) = env::var(CLUSTER_VARIABLE) else {
            return refused("this test needs a cluster: run it with `./x test`");
        };
        Self::named(&name)
    }

    /// A dev cluster, such as one that a test has made for itself.
    pub fn named(name: &str) -> Result<Self> {
        let cluster = Cluster::named(name)?;
        Ok(Self {
            kubectl: Kubernetes::already_there()?.program("kubectl"),
            kubeconfig: cluster.kubeconfig(),
            dev: Some(cluster),
        })
    }

    /// The dev cluster; a cluster of the user's own has no nodes that may be stopped.
    pub fn dev(&self) -> Result<&Cluster> {
        match &self.dev {
            Some(cluster) => Ok(cluster),
            None => refused("this test stops nodes, so it needs a dev cluster"),
        }
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The program that reaches it.
    pub fn kubectl_program(&self) -> &Path {
        &self.kubectl
    }

    /// Runs `kubectl` as administrator.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        capture(self.command().args(arguments))
    }

    /// The same with something to read from standard input.
    pub fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        feed(self.command().args(arguments), input)
    }

    /// `kubectl apply` of a document.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        self.kubectl_with_input(&["apply", "-f", "-"], manifest)
    }

    /// A namespace of its own, deleted when dropped.
    pub fn namespace(&self, prefix: &str) -> Result<Namespace<'_>> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{}-{count}", std::process::id());
        self.kubectl(&["create", "namespace", &name])?;
        let namespace = Namespace {
            cluster: self,
            name,
        };
        // Pods are refused until the account they run as is there.
        wait_until(
            "the ServiceAccount of a namespace",
            Duration::from_secs(30),
            Path::new("-"),
            || {
                Ok(namespace
                    .kubectl(&["get", "serviceaccount", "default"])
                    .is_ok())
            },
        )?;
        Ok(namespace)
    }

    /// `kubectl` as administrator, to be given arguments.
    pub fn command(&self) -> Command {
        kubectl(&self.kubectl, &self.kubeconfig)
    }
}

/// A namespace that lasts as long as the test.
pub struct Namespace<'a> {
    cluster: &'a TestCluster,
    name: String,
}

impl Namespace<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The administrator's kubeconfig of its cluster.
    pub fn kubeconfig(&self) -> &Path {
        self.cluster.kubeconfig()
    }

    /// Runs `kubectl` in it.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        capture(
            self.cluster
                .command()
                .args(["--namespace", &self.name])
                .args(arguments),
        )
    }

    /// Applies a document to it.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        feed(
            self.cluster
                .command()
                .args(["--namespace", &self.name, "apply", "-f", "-"]),
            manifest,
        )
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        let _ = self
            .cluster
            .kubectl(&["delete", "namespace", &self.name, "--wait=false"]);
    }
}
