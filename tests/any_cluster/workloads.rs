//! A Deployment and a DaemonSet from our own images run, log, take commands, and reach each other.

use stowage_tests::{cluster, eventually, ready_pods, text};

/// `busybox` as people write it: the name alone, so it is pulled every time.
const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      containers:
        - name: web
          image: busybox
          command: [sh, -c, "mkdir /www && hostname > /www/name && echo serving && exec httpd -f -p 8080 -h /www"]
          readinessProbe: {httpGet: {path: /name, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - {name: agent, image: busybox, command: [sleep, "1000000"]}
"#;

#[test]
fn a_deployment_and_a_daemon_set_run_on_every_node_and_reach_each_other() {
    let cluster = cluster();
    let nodes = cluster
        .kubectl(&["get", "nodes", "-o", "name"])
        .unwrap()
        .lines()
        .count();
    let namespace = cluster.namespace("workloads").unwrap();
    namespace.apply(WORKLOADS).unwrap();
    let web = ready_pods(&namespace, "app=web", 2);
    let agents = ready_pods(&namespace, "app=agent", nodes);

    let node = |pod: &serde_json::Value| text(&pod["spec"]["nodeName"]).to_owned();
    if nodes > 1 {
        assert_ne!(node(&web[0]), node(&web[1]), "one web pod per node");
    }

    let name = text(&web[0]["metadata"]["name"]);
    assert_eq!(namespace.kubectl(&["logs", name]).unwrap(), "serving\n");
    assert_eq!(
        namespace
            .kubectl(&["exec", name, "--", "cat", "/www/name"])
            .unwrap()
            .trim(),
        name
    );

    // Every agent reaches every web pod by its address, across nodes too.
    for agent in &agents {
        let agent = text(&agent["metadata"]["name"]);
        for pod in &web {
            let url = format!("http://{}:8080/name", text(&pod["status"]["podIP"]));
            let answer = namespace
                .kubectl(&["exec", agent, "--", "timeout", "5", "wget", "-qO-", &url])
                .unwrap();
            assert_eq!(answer.trim(), text(&pod["metadata"]["name"]));
        }
    }

    // And the service by its address answers from both.
    let service = namespace
        .kubectl(&["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"])
        .unwrap();
    let agent = text(&agents[0]["metadata"]["name"]);
    let ask = format!(
        "for i in $(seq 30); do timeout 5 wget -qO- http://{service}/name || exit 1; done | sort -u"
    );
    // kube-proxy follows the endpoints with a little delay.
    eventually("both pods answer for the service", || {
        let names = namespace
            .kubectl(&["exec", agent, "--", "sh", "-c", &ask])
            .ok()?;
        (names.lines().count() == 2).then_some(())
    });
}
