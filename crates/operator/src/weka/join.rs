//! Where clients join a cluster that they name and whose addresses nobody wrote down. Pure.

use kube::Resource as _;
use stowage_api::weka::{ContainerState, WekaCluster, WekaContainer};

/// Addresses that a client gets at most.
const MOST: usize = 96;

/// Containers that serve a cluster's data, and that clients can join at.
const BACKENDS: [&str; 2] = ["compute", "drive"];

/// The addresses of a cluster's backends that run, `address:port`, always in the same order.
pub fn addresses<'a>(
    cluster: &WekaCluster,
    containers: impl Iterator<Item = &'a WekaContainer>,
) -> Vec<String> {
    let ours = containers.filter(|it| is_backend_of(it, cluster));
    let mut all: Vec<_> = ours.filter_map(address).collect();
    all.sort();
    all.dedup();
    all.truncate(MOST);
    all
}

/// What a container that has joined by `had` is given now: the same, as long as one of them serves. The list would change
/// whenever a backend comes or goes, and with it every container.
pub fn kept(had: &[String], addresses: &[String]) -> Vec<String> {
    let serves = had.iter().any(|it| addresses.contains(it));
    let chosen = if serves || addresses.is_empty() {
        had
    } else {
        addresses
    };
    chosen.to_vec()
}

fn is_backend_of(container: &WekaContainer, cluster: &WekaCluster) -> bool {
    let owners = container.meta().owner_references.iter().flatten();
    let mut owners = owners.filter(|it| Some(&it.uid) == cluster.meta().uid.as_ref());
    let mode = container.spec.mode.to_string();
    let state = container.status.as_ref().map(|it| &it.status);
    BACKENDS.contains(&mode.as_str())
        && state == Some(&ContainerState::Running)
        && owners.next().is_some()
}

fn address(container: &WekaContainer) -> Option<String> {
    let status = container.status.as_ref()?;
    let address = status.management_ips.first()?;
    let allocated = status.unknown.get("allocations");
    let allocated = allocated.and_then(|it| it["wekaPort"].as_i64());
    let allocated = allocated.filter(|port| *port != 0);
    let port = allocated.or(container.spec.port.map(i64::from))?;
    let is_v6 = address.contains(':');
    Some(if is_v6 {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster() -> WekaCluster {
        serde_json::from_value(json!({
            "apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaCluster",
            "metadata": {"name": "prod", "namespace": "n", "uid": "one"}, "spec": {},
        }))
        .unwrap()
    }

    fn container(owner: &str, mode: &str, status: &Value) -> WekaContainer {
        let owner = json!({"apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaCluster", "name": "x", "uid": owner});
        serde_json::from_value(json!({
            "apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaContainer",
            "metadata": {"name": "x", "namespace": "n", "ownerReferences": [owner]},
            "spec": {"image": "weka:4.4.5", "mode": mode, "name": "x", "numCores": 1, "port": 14000},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn clients_join_at_the_backends_of_their_cluster_that_run() {
        let status = |state: &str, ip: &str| json!({"status": state, "managementIPs": [ip]});
        let mut allocated = status("Running", "10.0.0.2");
        allocated["allocations"] = json!({"wekaPort": 15000});
        let all = [
            container("one", "compute", &allocated),
            container("one", "drive", &status("Running", "10.0.0.1")),
            container("one", "drive", &status("Running", "fd00::1")),
            container("one", "drive", &status("PodNotRunning", "10.0.0.3")),
            container("one", "client", &status("Running", "10.0.0.4")),
            container("other", "drive", &status("Running", "10.0.0.5")),
        ];
        let found = addresses(&cluster(), all.iter());
        assert_eq!(
            found,
            ["10.0.0.1:14000", "10.0.0.2:15000", "[fd00::1]:14000"]
        );
    }

    #[test]
    fn a_container_keeps_its_addresses_while_one_of_them_serves() {
        let list = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        for (had, found, expected) in [
            (vec![], vec!["a"], vec!["a"]),
            (vec!["a", "b"], vec!["b", "c"], vec!["a", "b"]),
            (vec!["a"], vec!["b"], vec!["b"]),
            (vec!["a"], vec![], vec!["a"]),
        ] {
            assert_eq!(
                kept(&list(&had), &list(&found)),
                list(&expected),
                "{had:?} {found:?}"
            );
        }
    }
}
