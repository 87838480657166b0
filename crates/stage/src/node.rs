//! A node with a driver of its own, as where a driver runs whole on every node.

use std::path::Path;

use clap::Args;
use stowage_csi::endpoint::Endpoint;
use stowage_memory_driver::{MemoryDriver, Profile, Serving};
use tempfile::TempDir;

use crate::rig::Rig;
use crate::running::{Place, Role, Running};

/// A node.
pub struct Node {
    /// In the cluster.
    pub name: String,
    /// Which has the name of the rig's.
    pub driver: MemoryDriver,
    directory: TempDir,
    _serving: Serving,
}

impl Node {
    /// Adds a node to a rig's cluster, and starts its driver.
    pub async fn new(rig: &Rig, name: &str) -> Self {
        let full = format!("{}-{name}", rig.namespace);
        let key = format!("{}/node", rig.name);
        rig.node(name, &[(&key, &full)]).await;
        let mut profile = Profile::named(&rig.name);
        profile.nodes = [full.clone()].into();
        let driver = MemoryDriver::new(profile);
        let directory = tempfile::tempdir().unwrap();
        let serving = driver.serve(&endpoint(directory.path())).unwrap();
        Self {
            name: full,
            driver,
            directory,
            _serving: serving,
        }
    }

    /// Starts a sidecar of the node: `run` says which.
    pub fn sidecar<A: Args>(&self, run: impl Role<A>, rig: &Rig, flags: &[&str]) -> Running {
        let registry = self.directory.path().join("registry");
        std::fs::create_dir_all(&registry).unwrap();
        let place = Place {
            endpoint: &endpoint(self.directory.path()),
            kubeconfig: rig.server.kubeconfig(),
            namespace: &rig.namespace,
        };
        let own = [
            format!("--plugin-registration-path={}", registry.display()),
            "--kubelet-registration-path=/var/lib/kubelet/plugins/x/csi.sock".to_owned(),
            "--node-deployment".to_owned(),
            format!("--node-name={}", self.name),
        ];
        let flags = flags.iter().map(ToString::to_string);
        Running::sidecar(run, place, own.into_iter().chain(flags))
    }
}

fn endpoint(directory: &Path) -> Endpoint {
    Endpoint::try_from(directory.join("csi.sock").as_path()).unwrap()
}
