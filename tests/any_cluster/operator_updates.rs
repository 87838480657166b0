//! Changed templates reach the nodes by the instance's strategy, and nobody else's.

use devcluster::testing::Namespace;
use serde_json::Value;
use stowage_tests::deployed::{Deployed, install_operator, uids};
use stowage_tests::{cluster, eventually, get, nodes, text};

/// A change of the node pods that changes nothing in them.
const CHANGE_NODES: &str =
    r#"{"spec": {"driverPerNodeTemplate": {"metadata": {"annotations": {"change": "1"}}}}}"#;

fn is_changed(pod: &Value) -> bool {
    pod["metadata"]["annotations"]["change"] == "1"
}

#[test]
fn of_two_drivers_side_by_side_only_the_changed_one_rolls() {
    let cluster = cluster();
    install_operator(cluster);
    let namespaces = ["one", "other"].map(|name| cluster.namespace(name).unwrap());
    let [one, other] = [&namespaces[0], &namespaces[1]]
        .map(|namespace| Deployed::every_node(namespace, |manifest| manifest));
    one.wait_until_rolled_out();
    other.wait_until_rolled_out();
    let (before, untouched) = (uids(&one.node_pods()), uids(&other.node_pods()));
    let count = before.len();
    assert_eq!(untouched.len(), count);

    one.patch(CHANGE_NODES);
    eventually("all pods are replaced", || {
        let pods = one.node_pods();
        (pods.len() == count && pods.iter().all(is_changed)).then_some(())
    });
    one.wait_until_rolled_out();
    let after = uids(&one.node_pods());
    assert!(after.iter().all(|uid| !before.contains(uid)));
    assert_eq!(uids(&other.node_pods()), untouched);

    // A selector takes the pods away from all other nodes, and the count follows.
    let chosen = &nodes()[0];
    let selector = format!(
        r#"{{"spec": {{"driverPerNodeTemplate": {{"spec": {{"nodeSelector": {{"kubernetes.io/hostname": "{chosen}"}}}}}}}}}}"#
    );
    one.patch(&selector);
    eventually("only the selected node has a pod", || {
        let pods = one.node_pods();
        let nodes: Vec<_> = pods
            .iter()
            .map(|pod| text(&pod["spec"]["nodeName"]))
            .collect();
        (nodes == [chosen]).then_some(())
    });
    one.wait_until_rolled_out();
    eventually("one node is wanted", || {
        let instance = get(one.namespace, "csidriverdeployment", one.name())?;
        (instance["status"]["nodes"] == "1/1").then_some(())
    });
    assert_eq!(uids(&other.node_pods()), untouched);
    one.remove();
    other.wait_until_available();
    other.remove();
}

#[test]
fn with_on_delete_pods_stay_until_somebody_deletes_them_and_the_controller_rolls() {
    let cluster = cluster();
    install_operator(cluster);
    let namespace = cluster.namespace("on-delete").unwrap();
    let driver = Deployed::one_controller(&namespace);
    driver.wait_until_rolled_out();
    let (nodes, controllers) = (uids(&driver.node_pods()), uids(&driver.controller_pods()));

    driver.patch(r#"{"spec": {"nodeUpdateStrategy": "OnDelete"}}"#);
    driver.patch(CHANGE_NODES);
    driver.patch(
        r#"{"spec": {"driverControllerTemplate": {"metadata": {"annotations": {"change": "1"}}}}}"#,
    );
    eventually("the controller is replaced", || {
        let pods = driver.controller_pods();
        (pods.len() == 1 && is_changed(&pods[0])).then_some(())
    });
    assert!(!controllers.contains(&uids(&driver.controller_pods())[0]));
    driver.wait_for("Progressing", "True", "WaitingForDeletion");
    assert_eq!(uids(&driver.node_pods()), nodes, "nobody deleted them");

    let pods = driver.node_pods();
    for (index, pod) in pods.iter().enumerate() {
        driver.wait_for("Progressing", "True", "WaitingForDeletion");
        let name = text(&pod["metadata"]["name"]);
        namespace.kubectl(&["delete", "pod", name]).unwrap();
        let now = eventually("a new pod in its place", || {
            let now = driver.node_pods();
            (now.len() == pods.len() && is_changed(&now[index])).then_some(now)
        });
        let waiting = index + 1..;
        assert_eq!(
            uids(&now[waiting.clone()]),
            uids(&pods[waiting]),
            "the rest waits"
        );
    }
    driver.wait_until_rolled_out();
    driver.remove();
}

/// Two pods with a volume each, which notes down each start, and a budget that admits no eviction.
const DATABASE: &str = "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}
      containers:
      - name: main
        image: busybox
        command: [sh, -c, 'echo $HOSTNAME >> /data/starts; exec sleep 3600']
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: CLASS
      resources: {requests: {storage: 16Mi}}
---
apiVersion: policy/POLICY
kind: PodDisruptionBudget
metadata: {name: db}
spec: {minAvailable: 2, selector: {matchLabels: {app: db}}}
";

/// Where the pods of the database run; nothing while one of them does not.
fn places(namespace: &Namespace<'_>) -> Option<Vec<String>> {
    let place = |name: &str| {
        let pod = get(namespace, "pod", name)?;
        let is_ready = pod["status"]["containerStatuses"][0]["ready"] == true;
        let place = text(&pod["spec"]["nodeName"]).to_owned();
        is_ready.then_some(place)
    };
    ["db-0", "db-1"].into_iter().map(place).collect()
}

#[test]
fn with_draining_pods_leave_a_node_before_its_driver_is_replaced_and_come_back() {
    let cluster = cluster();
    install_operator(cluster);
    let namespace = cluster.namespace("draining").unwrap();
    let driver = Deployed::every_node(&namespace, |manifest| manifest);
    driver.patch(
        r#"{"spec": {"nodeUpdateStrategy": "Draining", "nodeDrain": {"settleSeconds": 1}}}"#,
    );
    driver.wait_until_rolled_out();
    let served = cluster.kubectl(&["api-versions"]).unwrap();
    let is_served = served.lines().any(|it| it == "policy/v1");
    let policy = if is_served { "v1" } else { "v1beta1" };
    let database = DATABASE
        .replace("CLASS", driver.name())
        .replace("POLICY", policy);
    namespace.apply(&database).unwrap();
    let before = eventually("the database runs", || places(&namespace));

    // It would never be over, if nodes did not tell what is mounted.
    driver.patch(r#"{"spec": {"nodeDrain": {"settleSeconds": 3600}}}"#);
    driver.patch(CHANGE_NODES);
    driver.wait_for("Progressing", "True", "its budget allows no disruption");
    assert_eq!(places(&namespace).as_ref(), Some(&before));
    namespace.kubectl(&["delete", "pdb", "db"]).unwrap();
    driver.wait_until_rolled_out();
    assert!(driver.node_pods().iter().all(is_changed));

    let after = eventually("the database runs again", || places(&namespace));
    assert_eq!(after, before, "their volumes are there");
    for pod in ["db-0", "db-1"] {
        let starts = namespace.kubectl(&["exec", pod, "--", "cat", "/data/starts"]);
        assert_eq!(starts.unwrap().lines().count(), 2, "evicted once");
    }
    let taints = [
        "get",
        "nodes",
        "-o",
        "jsonpath={.items[*].spec.taints[*].key}",
    ];
    let taints = cluster.kubectl(&taints).unwrap();
    assert!(!taints.contains(&driver.driver), "{taints}");
    namespace.kubectl(&["delete", "statefulset", "db"]).unwrap();
    namespace.kubectl(&["delete", "pvc", "--all"]).unwrap();
    driver.remove();
}
