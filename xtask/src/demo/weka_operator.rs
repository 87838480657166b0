//! Weka clients that bring their driver along: from a WekaClient to two pods that share a volume, and the switch.

use devcluster::cluster::Cluster;
use devcluster::report::Report;
use devcluster::weka_sim::SimulatedWeka;

use super::kubectl::Kubectl;
use crate::workspace::say;
use crate::{image, test};

/// A volume, and two pods that write to it.
const APPLICATION: &str = include_str!("../demo-weka-operator.yaml");
const NAME: &str = "weka-operator-demo";
const CLASS: &str = "storageclass-csi-demo-weka-io-default";
const CSI: [&str; 2] = ["--namespace", "weka-operator-system"];
/// What lets the operator see, and grant, the secret of the driver.
const SECRETS: &str = include_str!("../../../deploy/weka/secrets.yaml");
const DEFINITIONS: [&str; 3] = [
    "deploy/crds/weka.weka.io.yaml",
    "deploy/weka/rules.yaml",
    "deploy/weka/binding.yaml",
];

pub fn run(kubectl: &Kubectl, cluster: &str, report: &Report) -> anyhow::Result<()> {
    image::build_and_load_simulator(cluster, report)?;
    let array = array(cluster)?;
    let step = report.step("Starting a simulated Weka cluster without clients");
    array.apply(kubectl.command())?;
    array.wait(|| kubectl.command())?;
    step.done("");
    start_clients(kubectl, &array, report)?;
    run_application(kubectl, report)?;
    switch(kubectl, &array, report)?;
    say("\
\nTry:
  ./x kubectl --namespace weka-operator-demo get wekaclients,wekacontainers,pods
  ./x kubectl --namespace weka-operator-demo delete wekaclient clients --wait=false      it waits for what is mounted
  ./x kubectl delete namespace stowage-demo                and then it goes, with everything that it brought
  docs/guides/weka-clients.md                              the rules
  ./x down                   when you are done");
    Ok(())
}

/// The array: another one than that of `./x demo weka`, which has clients on all nodes.
fn array(cluster: &str) -> anyhow::Result<SimulatedWeka> {
    let data = match test::own_cluster()? {
        Some(_) => None,
        None => Some(Cluster::named(cluster)?.directory().join(NAME)),
    };
    Ok(SimulatedWeka {
        name: NAME.to_owned(),
        run: format!("/run/{NAME}"),
        has_clients: false,
        ..SimulatedWeka::new(data)
    })
}

fn start_clients(kubectl: &Kubectl, array: &SimulatedWeka, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Starting Weka clients that bring their driver along");
    for file in DEFINITIONS {
        kubectl.apply_file(file)?;
    }
    kubectl.apply_text(&array.operator_config(true, &[]))?;
    let secrets = SECRETS
        .replace("weka-clients", NAME)
        .replace("weka-csi-NAME", "weka-csi-demo");
    kubectl.apply_text(&secrets)?;
    array.apply_secret(|| kubectl.command(), "weka-csi-demo", NAME)?;
    kubectl.apply_text(&client(&array.address(|| kubectl.command())?))?;
    wait_for_driver(kubectl)?;
    step.done("");
    say("");
    let deployed = "jsonpath={.status.csiDeployed}";
    let of_client = ["--namespace", NAME, "get", "wekaclient", "clients"];
    kubectl.show(&of_client)?;
    kubectl.show(&[&of_client[..], &["-o", deployed]].concat())?;
    kubectl.show(&["get", "storageclasses"])?;
    kubectl.show(&[&CSI[..], &["get", "deployments,pods"]].concat())
}

fn client(address: &str) -> String {
    format!(
        "\
apiVersion: weka.weka.io/v1alpha1
kind: WekaClient
metadata: {{name: clients, namespace: {NAME}}}
spec:
  image: {}
  joinIpPorts: [\"{address}:14000\", \"{address}:14001\"]
  csiConfig: {{csiGroup: demo}}
",
        image::SIMULATOR
    )
}

/// The driver runs on every node, and its controller.
fn wait_for_driver(kubectl: &Kubectl) -> anyhow::Result<()> {
    let nodes = ["--namespace", NAME, "get", "wekaclient", "clients", "-o"];
    let path =
        "jsonpath={.status.csiDeployed} {.status.csi.nodes} {.status.stats.containers.desired}";
    kubectl.wait("the driver runs on every node", |kubectl| {
        let said = kubectl.run(&[&nodes[..], &[path]].concat())?;
        let mut words = said.split(' ');
        let (deployed, counts, desired) = (words.next(), words.next(), words.next());
        let desired = desired.unwrap_or_default();
        Ok(deployed == Some("true") && counts == Some(&format!("{desired}/{desired}")))
    })?;
    let rollout = [
        "rollout",
        "status",
        "deployment/demo-csi-controller",
        "--timeout=120s",
    ];
    kubectl.run(&[&CSI[..], &rollout[..]].concat())?;
    Ok(())
}

fn run_application(kubectl: &Kubectl, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Giving two pods a volume of the class");
    kubectl.run(&["delete", "namespace", "stowage-demo", "--ignore-not-found"])?;
    kubectl.apply_text(APPLICATION)?;
    for pod in ["one", "other"] {
        kubectl.wait_for_pod(pod)?;
    }
    step.done("");
    say("");
    kubectl.show_own(&["get", "pvc,pods", "-o", "wide"])?;
    kubectl.show_own(&["exec", "one", "--", "tail", "-n", "4", "/data/log"])
}

/// Takes the driver away and brings it back while the pods write.
fn switch(kubectl: &Kubectl, array: &SimulatedWeka, report: &Report) -> anyhow::Result<()> {
    let step = report.step("Switching the driver off, and on again, while the pods write");
    kubectl.apply_text(&array.operator_config(false, &[]))?;
    kubectl.wait("the class is gone", |kubectl| {
        let found = [
            "get",
            "storageclass",
            CLASS,
            "--ignore-not-found",
            "-o",
            "name",
        ];
        Ok(kubectl.run(&found)?.is_empty())
    })?;
    kubectl.apply_text(&array.operator_config(true, &[]))?;
    wait_for_driver(kubectl)?;
    step.done("");
    say("");
    // A write that fails would have ended them.
    kubectl.show_own(&["get", "pods"])?;
    kubectl.show_own(&["exec", "one", "--", "tail", "-n", "2", "/data/log"])
}
