//! What fields say together: refused by the operator, and by a server that has `deploy/validation.yaml` when it is written.

use std::collections::HashMap;

use cel::{Context, Program};
use kube::api::PostParams;
use serde_json::{Value, json};
use stowage_api::driver_deployment::validation::{RULES, manifest};
use stowage_kubernetes::discovery::Server;

use crate::reconcile::faults::Faults;
use crate::reconcile::rig::{Rig, client_of, example, own_server};
use crate::reconcile::running::{eventually, instances};

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
    let server = own_server();
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

/// Evaluates an expression of the policy on an instance, as a server does.
fn evaluated(expression: &Value, context: &Context<'_, '_>) -> cel::Value {
    let expression = expression.as_str().unwrap();
    let program = Program::compile(expression).unwrap();
    let value = program.execute(context);
    value.unwrap_or_else(|error| panic!("{expression}: {error}"))
}

/// An instance as a server gives it to its policies: whole numbers are signed.
fn given(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(it) => (*it).into(),
        Value::Number(it) => it.as_i64().unwrap().into(),
        Value::String(it) => it.as_str().into(),
        Value::Array(all) => all.iter().map(given).collect::<Vec<_>>().into(),
        Value::Object(all) => {
            let all = all.iter().map(|(key, value)| (key.clone(), given(value)));
            all.collect::<HashMap<_, _>>().into()
        }
    }
}

/// Which rules an instance keeps.
fn kept(instance: &Value) -> Vec<bool> {
    let [policy, _] = manifest();
    let mut context = Context::default();
    context.add_variable_from_value("object", given(instance));
    let variables = policy["spec"]["variables"].as_array().unwrap();
    let variables = variables.iter().map(|it| {
        let value = evaluated(&it["expression"], &context);
        (it["name"].as_str().unwrap().to_owned(), value)
    });
    let variables: HashMap<String, cel::Value> = variables.collect();
    context.add_variable_from_value("variables", variables);
    let rules = policy["spec"]["validations"].as_array().unwrap();
    let keeps = |rule: &Value| evaluated(&rule["expression"], &context) == cel::Value::Bool(true);
    rules.iter().map(keeps).collect()
}

#[test]
fn each_rule_is_broken_by_what_it_is_about_and_by_nothing_else() {
    for (number, instance) in wrong("n").iter().enumerate() {
        let expected: Vec<bool> = (0..RULES.len()).map(|rule| rule != number).collect();
        assert_eq!(kept(instance), expected, "{:?}", RULES[number]);
    }
    let with = |field: &str, value: Value| {
        let mut instance = example("n");
        instance["spec"][field] = value;
        instance
    };
    for right in [
        example("n"),
        with("maxUnavailableNodes", json!(1)),
        with("maxUnavailableNodes", json!("100%")),
        with("maxUnavailableNodes", Value::Null),
        with("storageClassTemplates", Value::Null),
        with("storageClassTemplates", json!([])),
        with("sidecars", json!({})),
    ] {
        assert_eq!(kept(&right), [true; RULES.len()], "{right}");
    }
    for wrong in [json!(0), json!("0%"), json!("1"), json!(-1)] {
        assert!(!kept(&with("maxUnavailableNodes", wrong))[1]);
    }
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
