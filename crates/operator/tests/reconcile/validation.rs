//! What fields say together: refused by the operator, and by a server that has `deploy/validation.yaml` when it is written.

use kube::api::PostParams;
use serde_json::{Value, json};
use stowage_api::driver_deployment::validation::{RULES, manifest};
use stowage_kubernetes::discovery::Server;

use crate::faults::Faults;
use crate::rig::{Rig, client_of, example, start_server};
use crate::running::{eventually, instances};

/// One instance for each rule that breaks it, and no other.
fn wrong(namespace: &str) -> [Value; RULES.len()] {
    let with = |field: &str, value: Value| {
        let mut instance = example(namespace);
        instance["spec"][field] = value;
        instance
    };
    let class = |name: &str, default: bool| json!({"metadata": {"name": name}, "default": default});
    let everywhere = json!({"nodeDeployment": true});
    let mut images = with(
        "containerImages",
        json!({"attacherImage": "a/csi-attacher:v4.12.0"}),
    );
    images["spec"]["sidecars"] = json!({"mode": "Builtin"});
    [
        with("driverSocket", json!("/csi.sock")),
        with("maxUnavailableNodes", json!("101%")),
        with(
            "storageClassTemplates",
            json!([class("a", false), class("a", false)]),
        ),
        with(
            "storageClassTemplates",
            json!([class("a", true), class("b", true)]),
        ),
        with("sidecars", everywhere),
        images,
    ]
}

#[tokio::test]
async fn the_operator_refuses_whatever_the_policy_refuses() {
    let mut rig = Rig::new().await;
    for (instance, rule) in wrong(&rig.namespace).into_iter().zip(RULES) {
        rig.create(instance).await;
        rig.sync().await;
        let told = rig.condition("SyncSuccessful").await;
        assert_eq!(told["reason"], "Invalid", "{rule:?}: {told}");
        rig.delete().await;
    }
    // What is right is not refused by accident.
    rig.deploy(|_| ()).await;
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
}

#[tokio::test]
async fn a_server_that_has_policies_refuses_it_when_it_is_written() {
    let server = start_server();
    let client = client_of(&server, &Faults::default()).await;
    let discovered = Server::discover(&client).await.unwrap();
    let version = ["admissionregistration.k8s.io/v1"];
    let policies = discovered.version_with(&client, "validatingadmissionpolicies", &version);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/validation.yaml");
    let applied = server.kubectl(&["apply", "-f", path]);
    if policies.await.unwrap().is_none() {
        let refused = applied.unwrap_err().to_string();
        assert!(refused.contains("ValidatingAdmissionPolicy"), "{refused}");
        return;
    }
    applied.unwrap();
    let (instances, nothing) = (instances(&client), PostParams::default());
    for (instance, rule) in wrong("default").into_iter().zip(RULES) {
        let instance = serde_json::from_value(instance).unwrap();
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually(rule.message, async || {
            let refused = instances.create(&dry_run, &instance).await.err()?;
            assert!(refused.to_string().contains(rule.message), "{refused}");
            Some(())
        })
        .await;
    }
    let right = serde_json::from_value(example("default")).unwrap();
    instances.create(&nothing, &right).await.unwrap();
}

#[test]
fn the_policy_is_about_our_kind_and_lets_go_what_is_being_deleted() {
    let [policy, binding] = manifest();
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    let resources = &policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"];
    assert_eq!(
        *resources,
        json!(["csidriverdeployments"]),
        "not its status"
    );
    let condition = policy["spec"]["matchConditions"][0]["expression"].as_str();
    assert!(condition.unwrap().contains("deletionTimestamp"));
}
