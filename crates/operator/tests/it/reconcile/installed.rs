//! The manifests of `deploy/`: with exactly these rights the operator can do its work.

use std::fs;
use std::path::{Path, PathBuf};

use devcluster::testing::{ControlPlane, eventually};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use stowage_operator::driver::Kind;
use stowage_operator::driver::rbac::{controller_rules, operator_rules};
use stowage_testing::once_at;

use crate::reconcile::draining;
use crate::reconcile::fleet::Fleet;
use crate::reconcile::rig::{Rig, client_as, example, server, unique};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
}

/// Of the chart, from which the manifests of `deploy/` are written (`./x check --fix`).
#[test]
fn the_operators_rules_are_those_of_the_code() {
    let rules = json!(operator_rules());
    let path = deploy("../charts/stowage/files/operator-rules.yaml");
    if std::env::var_os("STOWAGE_UPDATE_GOLDEN").is_some() {
        fs::write(&path, serde_saphyr::to_string(&rules).unwrap()).unwrap();
    }
    let committed: Value =
        serde_saphyr::from_str(&fs::read_to_string(&path).unwrap_or_default()).unwrap();
    assert_eq!(committed, rules);
    let text = rules.to_string();
    assert!(
        !text.contains("escalate") && !text.contains("\"bind\"") && !text.contains('*'),
        "{text}"
    );
}

/// The table of the guide, for accounts that a template brings along.
#[test]
fn the_guide_lists_the_rules_of_the_code() {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut table = String::from("| scope | API group | resource | verbs |\n|---|---|---|---|\n");
    for (scope, rules) in ["cluster", "namespace"].into_iter().zip(controller_rules()) {
        for rule in rules {
            let (group, resource) = (text(&rule["apiGroups"][0]), text(&rule["resources"][0]));
            let group = if group.is_empty() {
                "core".to_owned()
            } else {
                group
            };
            let verbs: Vec<_> = rule["verbs"].as_array().unwrap().iter().map(text).collect();
            table.push_str(&format!(
                "| {scope} | {group} | {resource} | {} |\n",
                verbs.join(", ")
            ));
        }
    }
    let path = deploy("../docs/guides/operator.md");
    let guide = fs::read_to_string(&path).unwrap();
    let (before, rest) = guide.split_once("<!-- rules -->\n").unwrap();
    let (listed, after) = rest.split_once("<!-- end of rules -->").unwrap();
    if std::env::var_os("STOWAGE_UPDATE_GOLDEN").is_some() {
        let new = format!("{before}<!-- rules -->\n{table}<!-- end of rules -->{after}");
        fs::write(&path, new).unwrap();
    } else {
        assert_eq!(listed, table);
    }
}

#[test]
fn the_definition_is_the_same_in_both_places() {
    let read = |file| fs::read_to_string(deploy(file)).unwrap();
    assert_eq!(
        read("prerequisites/01-crd.yaml"),
        read("crds/csidriver.storage.openshift.io.yaml")
    );
}

/// Once: two at a time would be in each other's way.
fn install_prerequisites() {
    once_at(server(), "prerequisites", || {
        let path = deploy("prerequisites");
        let apply = ["apply", "-f", path.to_str().unwrap()];
        server().kubectl(&apply).unwrap();
    });
}

async fn as_operator() -> Client {
    as_account("csi-operator").await
}

async fn as_account(name: &str) -> Client {
    let mut kubeconfig = Kubeconfig::read_from(server().kubeconfig()).unwrap();
    for user in &mut kubeconfig.auth_infos {
        let user = user.auth_info.get_or_insert_default();
        user.impersonate = Some(format!("system:serviceaccount:csi-operator:{name}"));
        user.impersonate_groups = Some(vec![
            "system:serviceaccounts".to_owned(),
            "system:authenticated".to_owned(),
        ]);
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_emptied_with_the_rights_of_a_manifest_of_its_own() {
    install_prerequisites();
    let path = deploy("draining.yaml");
    let apply = ["apply", "-f", path.to_str().unwrap()];
    server().kubectl(&apply).unwrap();
    // An account of its own: the operator's has these rights now.
    let grant = |role: &str| {
        let role = format!("--clusterrole={role}");
        let binding = unique();
        let words = ["create", "clusterrolebinding", &binding, &role];
        let account = ["--serviceaccount=csi-operator:drainer"];
        server().kubectl(&[&words[..], &account].concat()).unwrap();
    };
    grant("csi-operator");
    let operator = "--as=system:serviceaccount:csi-operator:csi-operator";
    for (verb, secret, expected) in [
        ("get", "secret/csi-operator-mounts-key", "yes"),
        ("create", "secrets", "yes"),
        ("list", "secrets", "no"),
        ("update", "secrets", "no"),
    ] {
        let words = [
            "auth",
            "can-i",
            verb,
            secret,
            "-n",
            "csi-operator",
            operator,
        ];
        // `no` is a failure, too.
        let answer = server().kubectl(&words);
        let answer = answer.unwrap_or_else(|error| error.to_string());
        assert!(answer.contains(expected), "{verb} {secret}: {answer}");
    }
    let mut rig = Rig::with_client(as_account("drainer").await).await;
    let mut fleet = Fleet::deploy(&mut rig, 1, |_| ()).await;
    let node = fleet.nodes[0].clone();
    fleet.user("db-0", &node).await;
    draining::change_template(&mut rig, &mut fleet).await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "Forbidden");
    let told = condition["message"].as_str().unwrap();
    assert!(told.contains("deploy/draining.yaml"), "{told}");

    grant("csi-operator-draining");
    draining::finish(&mut rig, &fleet, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_account_can_do_all_of_its_work_and_no_more() {
    install_prerequisites();
    let manifest = deploy("operator.yaml");
    server()
        .kubectl(&["apply", "-f", manifest.to_str().unwrap()])
        .unwrap();

    let mut rig = Rig::with_client(as_operator().await).await;
    let namespace = rig.namespace.clone();
    let mut instance = example(&namespace);
    let secret = json!({
        "csi.storage.k8s.io/provisioner-secret-name": "s",
        "csi.storage.k8s.io/provisioner-secret-namespace": namespace,
    });
    instance["spec"]["controllerReplicas"] = json!(2);
    instance["spec"]["storageClassTemplates"][0]["parameters"] = secret;
    instance["spec"]["volumeSnapshotClassTemplates"] =
        json!([{"metadata": {"name": format!("{namespace}-s")}}]);
    instance["spec"]["sidecars"]["secretAccess"] = json!("Named");
    rig.create(instance).await;
    // Nobody can grant what they do not have: the remedy is a command.
    rig.reconcile("hostpath").await;
    let told = rig.condition("SyncSuccessful").await;
    assert_eq!(told["reason"], "Forbidden");
    let told = told["message"].as_str().unwrap().to_owned();
    let (_, command) = told.split_once("kubectl ").unwrap();
    let command: Vec<_> = command.split_whitespace().collect();
    assert!(command.contains(&"rolebinding"), "{told}");
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert!(!set.is_null(), "only the secret waits");
    server().kubectl(&command).unwrap();
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["message"], "");

    rig.edit(json!({"spec": {"sidecars": {"secretAccess": "Cluster"}}}))
        .await;
    rig.reconcile("hostpath").await;
    let told = rig.condition("SyncSuccessful").await.to_string();
    assert!(
        told.contains("deploy/secrets-of-all-namespaces.yaml"),
        "{told}"
    );
    let path = deploy("secrets-of-all-namespaces.yaml");
    let apply = ["apply", "-f", path.to_str().unwrap()];
    server().kubectl(&apply).unwrap();
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["message"], "");
    let delete = ["delete", "-f", path.to_str().unwrap()];
    server().kubectl(&delete).unwrap();
    let events = rig.events().await;
    assert!(
        events.iter().any(|it| it.starts_with("ObjectsCreated")),
        "{events:?}"
    );
    rig.instances()
        .delete("hostpath", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    rig.sync().await;
    assert!(rig.instance().await.is_null());

    for refused in [
        &["create", "pods"][..],
        &["escalate", "clusterroles"],
        &["bind", "clusterroles"],
        &["list", "secrets"],
        &["get", "secrets"],
        &[
            "create",
            "csidriverdeployments.csidriver.storage.openshift.io",
        ],
        &["update", "configmaps", "-n", "csi-operator"],
        &["update", "nodes"],
    ] {
        let account = "system:serviceaccount:csi-operator:csi-operator";
        let arguments = [&["auth", "can-i", "--as", account], refused].concat();
        assert!(server().kubectl(&arguments).is_err(), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_is_named_and_nothing_is_made() {
    let reader = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "somebody"},
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["csidriver.storage.openshift.io"], "resources": ["*"], "verbs": ["patch"]},
        ],
    });
    server()
        .kubectl_with_input(&["apply", "-f", "-"], &reader.to_string())
        .unwrap();
    let bind = [
        "create",
        "clusterrolebinding",
        "somebody",
        "--clusterrole=somebody",
        "--user=somebody",
    ];
    server().kubectl(&bind).unwrap();
    let mut rig = Rig::with_client(client_as("somebody").await).await;
    rig.create(example(&rig.namespace)).await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "Forbidden");
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("cannot create resource \"daemonsets\""),
        "{message}"
    );
    assert_eq!(rig.titles().await, Vec::<String>::new());
}

/// The roles of namespaces, as Kubernetes puts them together.
#[test]
fn whoever_may_view_a_namespace_may_view_its_drivers_and_only_administrators_of_storage_change_them()
 {
    let plane = ControlPlane::start().unwrap();
    let prerequisites = deploy("prerequisites");
    let apply = ["apply", "-f", prerequisites.to_str().unwrap()];
    plane.kubectl(&apply).unwrap();
    let roles = ["view", "edit", "admin", "csidriverdeployments-edit"];
    for role in roles {
        let (user, role) = (format!("--user={role}"), format!("--clusterrole={role}"));
        let binding = [
            "create",
            "rolebinding",
            &user[2..].replace('=', "-"),
            &role,
            &user,
        ];
        plane.kubectl(&binding).unwrap();
    }
    let may = |role: &str, verb: &str| {
        let user = format!("--as={role}");
        let resource = "csidriverdeployments.csidriver.storage.openshift.io";
        plane
            .kubectl(&["auth", "can-i", verb, resource, &user])
            .is_ok()
    };
    // It is a controller that adds them up.
    for role in roles {
        eventually(&format!("{role} may look"), || may(role, "list"));
        for verb in ["get", "watch"] {
            assert!(may(role, verb), "{role} {verb}");
        }
        // Who may create one is root on every node.
        let changes = role == "csidriverdeployments-edit";
        for verb in ["create", "update", "patch", "delete"] {
            assert_eq!(may(role, verb), changes, "{role} {verb}");
        }
    }
    assert!(!may("nobody", "list"));
}
