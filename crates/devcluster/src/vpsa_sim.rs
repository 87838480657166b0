//! Two simulated VPSAs in a Kubernetes cluster: the manifests of `deploy/sim`, as tests and demos apply them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::loops::label;
use crate::process::{capture, feed};
use crate::stand_ins;

const ARRAYS_AND_HOSTS: &str = include_str!("../../../deploy/sim/vpsa.yaml");
const STAND_INS: &str = include_str!("../../../deploy/sim/vpsa-driver-patch.json");
const DEFINITIONS: &str = include_str!("../../../deploy/crds/storage.zadara.com.yaml");

/// As the manifests name them.
pub const NAMESPACE: &str = "vpsa-sim";
const DATA: &str = "path: /srv/stowage-sim-vpsa\n";
const LABEL: &str = "--label=!srv!stowage-sim-vpsa\n";

/// The arrays; the first has the larger pool.
pub const ARRAYS: [&str; 2] = ["vpsa-1", "vpsa-2"];

/// The access key of each.
pub const ACCESS_KEY: &str = "SIMULATEDACCESSKEY-1";

/// What has to run before they can be used.
const WORKLOADS: [&str; 3] = [
    "deployment/vpsa-1",
    "deployment/vpsa-2",
    "daemonset/vpsa-host",
];

/// The arrays, and the kernels of nodes beside them.
#[derive(Clone, Debug)]
pub struct SimulatedVpsas {
    /// Their data: a directory that all nodes see.
    pub data: PathBuf,
}

impl SimulatedVpsas {
    /// Those of the guide.
    pub fn new(data: &Path) -> Self {
        let data = data.to_owned();
        Self { data }
    }

    /// Arrays and hosts.
    pub fn manifest(&self) -> String {
        let data = format!("path: {}\n", self.data.display());
        let label = format!("--label={}\n", label(&self.data));
        ARRAYS_AND_HOSTS.replace(DATA, &data).replace(LABEL, &label)
    }

    /// Starts arrays and hosts, and makes the definitions and keys that a driver needs in its namespace. `kubectl` is the
    /// command for the cluster.
    ///
    /// Called twice: nothing changes.
    pub fn apply(&self, kubectl: impl Fn() -> Command, driver: &str) -> Result<()> {
        feed(kubectl().args(["apply", "-f", "-"]), DEFINITIONS)?;
        feed(kubectl().args(["apply", "-f", "-"]), &self.manifest())?;
        feed(kubectl().args(["apply", "-f", "-"]), &keys(driver))?;
        Ok(())
    }

    /// Waits until all of it runs.
    pub fn wait(&self, kubectl: impl Fn() -> Command) -> Result<()> {
        for workload in WORKLOADS {
            let rollout = ["rollout", "status", workload, "--timeout=120s"];
            capture(kubectl().args(["--namespace", NAMESPACE]).args(rollout))?;
        }
        Ok(())
    }

    /// Where pods find an array.
    pub fn address(&self, kubectl: impl Fn() -> Command, array: &str) -> Result<String> {
        let address = ["get", "service", array, "-o", "jsonpath={.spec.clusterIP}"];
        capture(kubectl().args(["--namespace", NAMESPACE]).args(address))
    }

    /// A class, if it is the first, and an array in it with this access key.
    ///
    /// Called twice: nothing changes.
    pub fn add(&self, kubectl: impl Fn() -> Command, array: &str, key: &str) -> Result<()> {
        let address = self.address(&kubectl, array)?;
        feed(
            kubectl().args(["apply", "-f", "-"]),
            &vpsa(array, &address, key),
        )?;
        Ok(())
    }

    /// The driver of a manifest, with stand-ins for `iscsiadm`, `mount` and the kernel's links to disks. `more` are further
    /// operations of a JSON patch, separated by commas.
    pub fn with_stand_ins(&self, manifest: &str, more: &str) -> Result<String> {
        stand_ins::patched(manifest, STAND_INS, more)
    }
}

/// Keys that nobody has to keep secret.
fn keys(namespace: &str) -> String {
    let (tokens, logins) = ("t".repeat(32), "l".repeat(32));
    format!(
        "\
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: csi-vpsa-keys, namespace: {namespace}}}
stringData: {{GLOBAL_ENCRYPTION_KEY: {tokens}, CHAP_ENCRYPTION_KEY: {logins}}}
"
    )
}

fn vpsa(array: &str, address: &str, key: &str) -> String {
    format!(
        "\
apiVersion: storage.zadara.com/v1
kind: VPSA
metadata: {{name: {array}}}
spec:
  displayName: {array}
  VSCStorageClassName: gold
  hostname: {address}:14443
  token: {key}
  tls: {{enabled: false}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_where_it_is_said_to_be_for_arrays_and_hosts() {
        let manifest = SimulatedVpsas::new(Path::new("/data/vpsas")).manifest();
        assert_eq!(manifest.matches("path: /data/vpsas\n").count(), 3);
        assert_eq!(manifest.matches("--label=!data!vpsas\n").count(), 1);
        assert!(!manifest.contains("path: /srv"), "{manifest}");
        for array in ARRAYS {
            assert!(manifest.contains(&format!("--data=/data/{array}\n")));
        }
    }
}
