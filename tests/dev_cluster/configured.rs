//! What an administrator sets for all drivers is followed by an operator that runs: controllers move to the nodes that are
//! labelled for them, and back.

use devcluster::testing::TestCluster;
use serde_json::{Value, json};
use stowage_tests::deployed::Deployed;
use stowage_tests::{eventually, text};

const LABEL: &str = "example.com/infra";

fn config(cluster: &TestCluster) -> String {
    let get = ["get", "configmap", "csi-operator-config", "-o", "json"];
    let found = cluster.kubectl(&[&get[..], &["--namespace=csi-operator"]].concat());
    let found: Value = serde_json::from_str(&found.unwrap()).unwrap();
    text(&found["data"]["config.yaml"]).to_owned()
}

fn configure(cluster: &TestCluster, config: &str) {
    let patch = json!({"data": {"config.yaml": config}}).to_string();
    let change = ["patch", "configmap", "csi-operator-config", "--type=merge"];
    let how = ["-p", &patch, "--namespace=csi-operator"];
    cluster.kubectl(&[&change[..], &how].concat()).unwrap();
}

fn nodes_of(driver: &Deployed<'_>) -> Vec<String> {
    let pods = driver.controller_pods();
    let nodes = pods.iter().map(|pod| text(&pod["spec"]["nodeName"]));
    nodes.map(str::to_owned).collect()
}

/// Where the pods of a driver's controller may run.
fn selector(driver: &Deployed<'_>) -> Option<Value> {
    let path = "jsonpath={.spec.template.spec.nodeSelector}";
    let name = format!("{}-controller", driver.name());
    let get = ["get", "deployment", &name, "-o", path];
    serde_json::from_str(&driver.namespace.kubectl(&get).ok()?).ok()
}

/// Labels a node where the first of these drivers has no controller, and expects those of all of them there.
pub fn controllers_follow_the_configuration(cluster: &TestCluster, drivers: &[&Deployed<'_>]) {
    let before = config(cluster);
    let taken = nodes_of(drivers[0]);
    let path = "jsonpath={.items[*].metadata.name}";
    let nodes = cluster.kubectl(&["get", "nodes", "-o", path]).unwrap();
    let mut nodes = nodes.split_whitespace();
    let chosen = nodes.find(|it| !taken.iter().any(|node| node == it));
    let chosen = chosen.unwrap();
    let label = |label: &str| cluster.kubectl(&["label", "node", chosen, label]).unwrap();
    label(&format!("{LABEL}=yes"));
    configure(
        cluster,
        &format!("infrastructureNodeSelector: {{{LABEL}: 'yes'}}\n"),
    );
    for driver in drivers {
        eventually("the controller is on the labelled node", || {
            (nodes_of(driver) == [chosen]).then_some(())
        });
        driver.wait_until_rolled_out();
    }

    configure(cluster, &before);
    for driver in drivers {
        eventually("the controller may run everywhere again", || {
            selector(driver)?[LABEL].is_null().then_some(())
        });
        driver.wait_until_rolled_out();
    }
    label(&format!("{LABEL}-"));
}
