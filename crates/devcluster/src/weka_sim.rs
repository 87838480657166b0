//! Simulated Weka clusters in a Kubernetes cluster: the manifests of `deploy/sim`, as tests and demos apply them.
//!
//! Several may run at once: each has a namespace of its own, and nodes may be clients of several.

use std::path::PathBuf;
use std::process::Command;

use crate::error::Result;
use crate::process::{capture, feed};
use crate::stand_ins;

const ARRAY: &str = include_str!("../../../deploy/sim/weka.yaml");
const STAND_INS: &str = include_str!("../../../deploy/sim/weka-driver-patch.json");
const NFS_STAND_INS: &str = include_str!("../../../deploy/sim/weka-nfs-driver-patch.json");
const OPERATOR: &str = include_str!("../../../deploy/sim/weka-operator-config.yaml");

/// As the manifests name them.
const NAMESPACE: &str = "weka-sim";
const DATA: &str = "/srv/stowage-sim";
const RUN: &str = "/run/stowage-sim";

/// How it is told to serve HTTP.
const PLAIN_HTTP: &str = "        - --plain-http\n";

/// Where its clients may run.
const ANYWHERE: &str = "      tolerations:\n      - operator: Exists\n";

/// The array itself.
pub const ARRAY_WORKLOAD: &str = "deployment/weka";

/// Its clients, where they are there by themselves.
const CLIENTS: &str = "daemonset/weka-client";

/// What mounts its filesystems by NFS.
const NFS_HOSTS: &str = "daemonset/weka-nfs";

/// A simulated Weka cluster.
#[derive(Clone, Debug)]
pub struct SimulatedWeka {
    /// Its namespace; what people call the cluster, too.
    pub name: String,
    /// Its files: a directory that all nodes see.
    pub data: PathBuf,
    /// The container of its client on the nodes.
    pub container: String,
    /// Where nodes keep the client's files; clusters that share it are clusters that a node is a client of at once.
    pub run: String,
    /// The release it simulates.
    pub release: Option<String>,
    /// The only node that is its client; none is all.
    pub node: Option<String>,
    /// Serves HTTP, whatever its release would do.
    pub plain_http: bool,
    /// Whether nodes are its clients by themselves; with WekaClients they are not.
    pub has_clients: bool,
    /// Whether nodes can mount its filesystems by NFS.
    pub has_nfs: bool,
}

impl SimulatedWeka {
    /// The one of the guide.
    pub fn new(data: Option<PathBuf>) -> Self {
        Self {
            name: NAMESPACE.to_owned(),
            data: data.unwrap_or_else(|| PathBuf::from(DATA)),
            container: "client".to_owned(),
            run: RUN.to_owned(),
            release: None,
            node: None,
            plain_http: true,
            has_clients: true,
            has_nfs: false,
        }
    }

    /// Array and clients.
    pub fn manifest(&self) -> String {
        let mut flags = format!("- --no-frontend\n        - --cluster-name={}", self.name);
        if let Some(release) = &self.release {
            flags.push_str(&format!("\n        - --release={release}"));
        }
        let http = if self.plain_http { PLAIN_HTTP } else { "" };
        let on_host = |path: &str| format!("path: {path}\n");
        let mut place = ANYWHERE.to_owned();
        if let Some(node) = &self.node {
            place.push_str(&format!(
                "      nodeSelector:\n        kubernetes.io/hostname: {node}\n"
            ));
        }
        let manifest = ARRAY
            .replace(NAMESPACE, &self.name)
            .replace(&on_host(DATA), &on_host(&self.data.display().to_string()))
            .replace(&on_host(RUN), &on_host(&self.run))
            .replace(
                "--container=client",
                &format!("--container={}", self.container),
            )
            .replace(PLAIN_HTTP, http)
            .replace("- --no-frontend", &flags)
            .replace(ANYWHERE, &place);
        let documents = manifest.split("\n---\n");
        let wanted = documents.filter(|it| {
            let is_of_nfs = it.contains("name: weka-nfs\n");
            let is_of_clients = it.contains("kind: DaemonSet") && !is_of_nfs;
            (self.has_clients || !is_of_clients) && (self.has_nfs || !is_of_nfs)
        });
        wanted.collect::<Vec<_>>().join("\n---\n")
    }

    /// The operator's configuration with which WekaClients are clients of this cluster: the ConfigMap that it reads. `more`
    /// is what else its `csi` has, one line each.
    pub fn operator_config(&self, is_enabled: bool, more: &[&str]) -> String {
        let on_host = |path: &str| format!("{{path: {path}");
        let mut csi = format!("installationEnabled: {is_enabled}\n");
        for line in more {
            csi.push_str(&format!("      {line}\n"));
        }
        OPERATOR
            .replace(&on_host(DATA), &on_host(&self.data.display().to_string()))
            .replace(&on_host(RUN), &on_host(&self.run))
            .replace("installationEnabled: true\n", &csi)
    }

    /// Starts array and clients, or changes them to what they are to be. `kubectl` is the command for the cluster.
    ///
    /// Called twice: nothing changes.
    pub fn apply(&self, mut kubectl: Command) -> Result<()> {
        feed(kubectl.args(["apply", "-f", "-"]), &self.manifest())?;
        Ok(())
    }

    /// Waits until all of it runs.
    pub fn wait(&self, kubectl: impl Fn() -> Command) -> Result<()> {
        let workloads = [
            Some(ARRAY_WORKLOAD),
            self.has_clients.then_some(CLIENTS),
            self.has_nfs.then_some(NFS_HOSTS),
        ];
        for workload in workloads.into_iter().flatten() {
            let rollout = ["rollout", "status", workload, "--timeout=120s"];
            capture(kubectl().args(["--namespace", &self.name]).args(rollout))?;
        }
        Ok(())
    }

    /// Where pods find it.
    pub fn address(&self, kubectl: impl Fn() -> Command) -> Result<String> {
        let address = ["get", "service", "weka", "-o", "jsonpath={.spec.clusterIP}"];
        capture(kubectl().args(["--namespace", &self.name]).args(address))
    }

    /// Makes the secret with which a driver uses it, as soon as the array has an address.
    ///
    /// Called twice: nothing changes.
    pub fn apply_secret(
        &self,
        kubectl: impl Fn() -> Command,
        name: &str,
        namespace: &str,
    ) -> Result<()> {
        let secret = self.secret(&kubectl, name, namespace)?;
        feed(kubectl().args(["apply", "-f", "-"]), &secret)?;
        Ok(())
    }

    /// The same secret, to be applied by somebody else.
    pub fn secret(
        &self,
        kubectl: impl Fn() -> Command,
        name: &str,
        namespace: &str,
    ) -> Result<String> {
        Ok(secret(name, namespace, &self.address(kubectl)?))
    }

    /// The driver of a manifest, with the client's files in place of the kernel's and its `mount.wekafs`; other documents
    /// stay as they are. `more` are further operations of a JSON patch, separated by commas.
    pub fn with_stand_ins(&self, manifest: &str, more: &str) -> Result<String> {
        let mut patch = self.on_host(STAND_INS);
        if self.has_nfs {
            patch = stand_ins::joined(&patch, &self.on_host(NFS_STAND_INS));
        }
        stand_ins::patched(manifest, &patch, more)
    }

    /// A patch with the places of this one.
    fn on_host(&self, patch: &str) -> String {
        let on_host = |path: &str| format!("\"path\": \"{path}");
        patch.replace(&on_host(RUN), &on_host(&self.run))
    }
}

/// The secret with which a driver uses it. `address` is that of its service.
fn secret(name: &str, namespace: &str, address: &str) -> String {
    format!(
        "\
apiVersion: v1
kind: Secret
metadata: {{name: {name}, namespace: {namespace}}}
stringData:
  username: admin
  password: admin
  organization: Root
  scheme: http
  endpoints: {address}:14000,{address}:14001
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_cluster_shares_nothing_with_the_first() {
        let first = SimulatedWeka::new(None).manifest();
        let second = SimulatedWeka {
            name: "weka-east".to_owned(),
            data: PathBuf::from("/data/east"),
            container: "east".to_owned(),
            run: "/run/east".to_owned(),
            release: Some("4.2.7".to_owned()),
            node: Some("node-b".to_owned()),
            plain_http: false,
            has_clients: true,
            has_nfs: true,
        };
        let config = second.operator_config(false, &["image: x:1"]);
        for own in [
            "{path: /data/east,",
            "{path: /run/east/mount.wekafs,",
            "false\n      image: x:1\n",
        ] {
            assert!(config.contains(own), "{own}: {config}");
        }
        let alone = SimulatedWeka {
            has_clients: false,
            has_nfs: false,
            ..second.clone()
        };
        assert!(!alone.manifest().contains("DaemonSet"));
        let second = second.manifest();
        for own in [
            "namespace: weka-east",
            "path: /data/east\n",
            "path: /run/east\n",
            "--container=east",
            "--cluster-name=weka-east",
            "--release=4.2.7",
            "kubernetes.io/hostname: node-b",
            "name: weka-nfs",
        ] {
            assert!(second.contains(own), "{own}");
            assert!(!first.contains(own), "{own}");
        }
        for foreign in [
            NAMESPACE,
            "path: /srv",
            "path: /run/stowage-sim\n",
            "=client",
            "--plain-http",
        ] {
            assert!(first.contains(foreign), "{foreign}");
            assert!(!second.contains(foreign), "{foreign}");
        }
    }
}
