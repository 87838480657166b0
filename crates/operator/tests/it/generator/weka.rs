//! What Weka clients become.

use std::fs;
use std::sync::Arc;

use serde_json::json;
use stowage_api::weka::{DesiredState, WekaClient, WekaCluster, WekaContainer};
use stowage_operator::config::{CsiConfig, OperatorConfig};
use stowage_operator::driver::{Facts, Kind, Object, PodFacts};
use stowage_operator::served::Versions;
use stowage_operator::weka::names;
use stowage_operator::weka::plan::{Claimant, DriverPlan, Plan, Target};
use stowage_operator::weka::render::{self, NODE_HASH, Placement};

use crate::generator::golden::{assert_reviewed, directory};

/// Our own image, the original's with one sidecar chosen, and the names of its releases.
pub(crate) const CASES: [&str; 3] = ["weka-own", "weka-upstream", "weka-released"];

struct Case {
    config: OperatorConfig,
    client: WekaClient,
    plan: DriverPlan,
}

impl Case {
    fn read(name: &str) -> Self {
        let read = |file: &str| fs::read_to_string(directory().join(name).join(file)).unwrap();
        let config = OperatorConfig::parse(&read("config.yaml")).unwrap();
        Self::of(
            serde_saphyr::from_str(&read("client.yaml")).unwrap(),
            config,
        )
    }

    fn of(client: WekaClient, config: OperatorConfig) -> Self {
        let target = match &client.spec.target_cluster {
            None => Target::None,
            Some(target) => Target::Found(Arc::new(
                serde_json::from_value(json!({
                    "apiVersion": "weka.weka.io/v1alpha1", "kind": "WekaCluster", "metadata": target, "spec": {},
                }))
                .unwrap(),
            )),
        };
        let claimant = Claimant {
            client: Arc::new(client.clone()),
            target,
            has_containers: true,
        };
        let csi = CsiConfig {
            installation_enabled: true,
            ..config.csi.clone()
        };
        let plan = Plan::of(&[claimant], &csi);
        let plan = plan.drivers.into_values().next().unwrap();
        Self {
            config,
            client,
            plan,
        }
    }

    fn container(&self) -> Object {
        let placement = Placement {
            name: &names::container("clients", "worker-1", "uid"),
            node: "worker-1",
            image: &self.client.spec.image,
            driver: &self.plan.names.driver,
            state: DesiredState::Active,
            join: &[],
        };
        render::container(&self.client, &placement)
    }

    /// The container as the server gives it back.
    fn stored_container(&self) -> WekaContainer {
        let mut stored = self.container().manifest(Versions::NEWEST);
        stored["metadata"]["uid"] = json!("7a1d3f6b-0000-4000-8000-0000c047a14e");
        serde_json::from_value(stored).unwrap()
    }

    fn node_pod(&self) -> Object {
        let container = self.stored_container();
        render::node_pod(
            &self.plan,
            &self.client,
            &container,
            "worker-1",
            &self.config,
            Some("0123abcd"),
        )
    }

    fn objects(&self) -> Vec<Object> {
        let (namespace, name) = self.plan.secret.clone();
        let facts = Facts {
            secrets: [(namespace, name)].into_iter().collect(),
            versions: Versions::NEWEST,
            has_security_constraints: false,
            pods: PodFacts::default(),
        };
        let mut objects = render::objects(&self.plan, &self.config, &facts);
        objects.push(self.container());
        let container = self.stored_container();
        let image = &self.client.spec.image;
        objects.push(render::client_pod(
            &container,
            "worker-1",
            image,
            &self.config.weka_clients,
        ));
        objects.push(self.node_pod());
        objects
    }
}

pub(crate) fn objects(case: &str) -> Vec<Object> {
    Case::read(case).objects()
}

#[test]
fn manifests_of_weka_clients_are_those_that_were_reviewed() {
    for case in CASES {
        let objects = objects(case);
        let rendered: Vec<_> = objects
            .iter()
            .map(|object| object.manifest(Versions::NEWEST))
            .collect();
        assert_reviewed(case, &rendered);
    }
}

#[test]
fn the_controller_inherits_selector_and_tolerations_and_node_pods_the_tolerations_only() {
    let case = Case::read("weka-own");
    let objects = case.objects();
    let deployment = objects
        .iter()
        .find(|it| it.kind == Kind::Deployment)
        .unwrap();
    let pod = &deployment.body["spec"]["template"]["spec"];
    assert_eq!(
        pod["nodeSelector"],
        json!({"weka.io/supports-clients": "true"})
    );
    let own = json!([
        {"effect": "NoSchedule", "key": "storage", "operator": "Exists"},
        {"effect": "NoExecute", "key": "storage", "operator": "Exists"},
    ]);
    assert_eq!(pod["tolerations"], own);
    let node_pod = &case.node_pod().body["spec"];
    assert!(node_pod["nodeSelector"].is_null() && node_pod["nodeName"].is_null());
    let tolerations = node_pod["tolerations"].as_array().unwrap();
    assert_eq!(json!(tolerations[..2]), own);
    let term = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0";
    let field = node_pod.pointer(term).unwrap();
    assert_eq!(
        *field,
        json!({"key": "metadata.name", "operator": "In", "values": ["worker-1"]})
    );
}

/// Each change of the wish changes the hash of what it concerns, and of nothing else.
#[test]
fn changes_touch_only_what_they_concern() {
    let hashes = |client: WekaClient, config: &str| {
        let case = Case::of(client, OperatorConfig::parse(config).unwrap());
        let objects = case.objects();
        let (pods, shared): (Vec<_>, Vec<_>) = objects
            .into_iter()
            .filter(|it| it.kind != Kind::WekaContainer)
            .partition(|it| it.kind == Kind::Pod);
        let node = pods
            .iter()
            .find_map(|pod| pod.annotations.get(NODE_HASH).cloned());
        (
            render::hash(&shared),
            node.unwrap(),
            render::hash(&pods[..1]),
        )
    };
    let client = |change: fn(&mut WekaClient)| {
        let mut client = Case::read("weka-own").client;
        change(&mut client);
        client
    };
    let on = "csi: {installationEnabled: true}";
    let before = hashes(client(|_| {}), on);
    assert_eq!(before, hashes(client(|_| {}), on));

    let advanced = |client: &mut WekaClient| {
        let config = json!({"advanced": {"nodeTolerations": [{"key": "x", "operator": "Exists"}]}});
        client.spec.csi_config = Some(serde_json::from_value(config).unwrap());
    };
    let tolerating = hashes(client(advanced), on);
    assert_eq!(tolerating.0, before.0);
    assert_ne!(tolerating.1, before.1);
    assert_eq!(tolerating.2, before.2);

    let image = hashes(
        client(|_| {}),
        "csi: {installationEnabled: true, image: 'mine:v1'}",
    );
    assert_ne!(image.0, before.0);
    assert_ne!(image.1, before.1);
    assert_eq!(image.2, before.2);

    // With the Kubernetes project's sidecars each has its place.
    let upstream = |more: &str| {
        let config =
            format!("csi: {{installationEnabled: true, provisionerImage: 'p:v6.0.0', {more}}}");
        hashes(client(|_| {}), &config)
    };
    let chosen = upstream("");
    for (image, controller, node) in [
        ("attacherImage", true, false),
        ("resizerImage", true, false),
        ("snapshotterImage", true, false),
        ("registrarImage", false, true),
        ("livenessProbeImage", true, true),
    ] {
        let changed = upstream(&format!("{image}: 'mine/x:v9.0.0'"));
        assert_eq!(changed.0 != chosen.0, controller, "{image}");
        assert_eq!(changed.1 != chosen.1, node, "{image}");
        assert_eq!(changed.2, chosen.2, "{image}");
    }

    let upgraded = hashes(client(|it| it.spec.image = "weka:5.0.0".to_owned()), on);
    assert_eq!((&upgraded.0, &upgraded.1), (&before.0, &before.1));
    assert_ne!(upgraded.2, before.2);
}

/// Each sample of a client, and the driver that its comment promises.
#[test]
fn the_samples_of_clients_give_the_drivers_that_they_promise() {
    let samples = directory().join("../../../../deploy/samples");
    for (file, driver) in [
        ("weka-client.yaml", "csi.weka.io"),
        (
            "weka-client-second-cluster.yaml",
            "csi.second-cluster.weka.io",
        ),
        (
            "weka-client-target-cluster.yaml",
            "csi.prod-default.weka.io",
        ),
    ] {
        let text = fs::read_to_string(samples.join(file)).unwrap();
        let mut documents = text.split("\n---\n");
        let client = documents
            .find(|it| it.contains("kind: WekaClient"))
            .unwrap();
        let client = serde_saphyr::from_str(client).unwrap();
        let case = Case::of(
            client,
            OperatorConfig::parse("csi: {installationEnabled: true}").unwrap(),
        );
        assert_eq!(case.plan.names.driver, driver, "{file}");
        assert!(text.contains(driver), "{file}");
    }
}

/// A client of the cluster in the sample has the driver that a separately installed plugin had.
#[test]
fn the_sample_of_a_migration_keeps_the_name_of_the_plugin() {
    let samples = directory().join("../../../../deploy/samples");
    let text = fs::read_to_string(samples.join("weka-migration.yaml")).unwrap();
    let cluster: WekaCluster = serde_saphyr::from_str(&text).unwrap();
    let mut client = Case::read("weka-own").client;
    let target = json!({"name": cluster.metadata.name, "namespace": cluster.metadata.namespace});
    client.spec.target_cluster = Some(serde_json::from_value(target).unwrap());
    let claimant = Claimant {
        client: Arc::new(client),
        target: Target::Found(Arc::new(cluster)),
        has_containers: true,
    };
    let csi = CsiConfig {
        installation_enabled: true,
        ..CsiConfig::default()
    };
    let drivers = Plan::of(&[claimant], &csi).drivers;
    assert_eq!(drivers.keys().collect::<Vec<_>>(), ["csi.weka.io"]);
    // The command that it names first is that of the plugin's chart.
    assert!(text.contains("helm uninstall"));
}

#[test]
fn a_site_adds_arguments_volumes_and_resources() {
    let config = OperatorConfig::parse(
        "
csi:
  extra:
    args: [--proc-modules=/site/modules]
    volumes: [{name: site, hostPath: {path: /site}}]
    volumeMounts: [{name: site, mountPath: /site}]
  resources:
    controller: {wekafs: {limits: {memory: 3Gi}}, csi-sidecar: {requests: {cpu: 4m}}}
    node: {wekafs: {limits: {memory: 2Gi}}}
wekaClients:
  readinessProbe: {httpGet: {path: /readyz, port: 14150}}
  extra: {args: [start], env: [{name: PORT, value: '14000'}]}
",
    );
    let case = Case::of(Case::read("weka-own").client, config.unwrap());
    let objects = case.objects();
    let deployment = objects.iter().find(|it| it.kind == Kind::Deployment);
    let controller = &deployment.unwrap().body["spec"]["template"]["spec"];
    let node_pod = case.node_pod();
    for (pod, memory) in [(controller, "3Gi"), (&node_pod.body["spec"], "2Gi")] {
        let plugin = &pod["containers"][0];
        assert_eq!(plugin["resources"], json!({"limits": {"memory": memory}}));
        let args = plugin["args"].as_array().unwrap();
        assert_eq!(args.last().unwrap(), "--proc-modules=/site/modules");
        let has = |list: &serde_json::Value| {
            list.as_array()
                .unwrap()
                .iter()
                .any(|it| it["name"] == "site")
        };
        assert!(
            has(&plugin["volumeMounts"]) && has(&pod["volumes"]),
            "{pod}"
        );
    }
    let sidecars =
        [controller, &node_pod.body["spec"]].map(|pod| &pod["containers"][1]["resources"]);
    assert_eq!(*sidecars[0], json!({"requests": {"cpu": "4m"}}));
    assert!(sidecars[1].is_null());
    let client_pod = objects.iter().find(|it| it.kind == Kind::Pod).unwrap();
    let main = &client_pod.body["spec"]["containers"][0];
    assert_eq!(main["args"], json!(["start"]));
    assert_eq!(main["readinessProbe"]["httpGet"]["port"], 14150);
    let env = main["env"].as_array().unwrap();
    let ports: Vec<_> = env.iter().filter(|it| it["name"] == "PORT").collect();
    assert_eq!(ports, [&json!({"name": "PORT", "value": "14000"})]);
}

#[test]
fn the_configuration_for_simulated_clients_is_understood() {
    let manifest = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/sim/weka-operator-config.yaml"
    );
    let manifest: serde_json::Value =
        serde_saphyr::from_str(&fs::read_to_string(manifest).unwrap()).unwrap();
    let config = OperatorConfig::parse(manifest["data"]["config.yaml"].as_str().unwrap()).unwrap();
    let case = Case::of(Case::read("weka-own").client, config);
    let objects = case.objects();
    let pod = objects.iter().find(|it| it.kind == Kind::Pod).unwrap();
    let args = pod.body["spec"]["containers"][0]["args"]
        .as_array()
        .unwrap();
    assert_eq!(args[..2], [json!("sim"), json!("weka-client")]);
}
