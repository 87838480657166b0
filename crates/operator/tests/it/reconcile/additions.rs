//! What a driver may have beside what its sidecars need.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use stowage_operator::driver::Kind;

use crate::reconcile::rig::{Rig, condition_of, example, resource};
use crate::reconcile::running::{Running, eventually, instances, synced};

/// What pods of both workloads are replaced for.
async fn hashes(rig: &Rig) -> Vec<Value> {
    let mut hashes = Vec::new();
    for (kind, name) in [
        (Kind::DaemonSet, "hostpath-node"),
        (Kind::Deployment, "hostpath-controller"),
    ] {
        let template = rig.get(kind, name).await["spec"]["template"].clone();
        hashes.push(template["metadata"]["annotations"]["stowage.dev/restart-hash"].clone());
    }
    hashes
}

/// Syncs until pods are replaced for something else than before.
async fn until_replaced(rig: &mut Rig, before: &[Value]) -> Vec<Value> {
    eventually("pods are replaced", async || {
        rig.sync().await;
        let now = hashes(rig).await;
        (now != before).then_some(now)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_replaced_when_what_they_read_has_changed_and_for_nothing_else() {
    let mut rig = Rig::new().await;
    let api = |kind: &str, plural: &str| {
        let resource = resource("", "v1", kind, plural);
        Api::<DynamicObject>::namespaced_with(rig.client.clone(), &rig.namespace, &resource)
    };
    let (maps, secrets) = (api("ConfigMap", "configmaps"), api("Secret", "secrets"));
    let map = json!({"metadata": {"name": "config"}, "data": {"a": "1"}});
    let map = serde_json::from_value(map).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    rig.deploy(|instance| {
        instance["spec"]["restartOn"] = json!({"configMaps": ["config"], "secrets": ["login"]});
    })
    .await;
    let first = hashes(&rig).await;
    assert!(first[0].is_string() && first[0] == first[1], "{first:?}");

    let params = PatchParams::default();
    let label = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    maps.patch("config", &params, &label).await.unwrap();
    let data = Patch::Merge(json!({"data": {"a": "2"}}));
    maps.patch("config", &params, &data).await.unwrap();
    let second = until_replaced(&mut rig, &first).await;
    assert_eq!(second[0], second[1]);
    // Back to what it was is back to what they were.
    let data = Patch::Merge(json!({"data": {"a": "1"}}));
    maps.patch("config", &params, &data).await.unwrap();
    assert_eq!(until_replaced(&mut rig, &second).await, first);

    let secret = json!({"metadata": {"name": "login"}, "stringData": {"password": "p"}});
    let secret = serde_json::from_value(secret).unwrap();
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    let third = until_replaced(&mut rig, &first).await;
    rig.sync().await;
    assert_eq!(hashes(&rig).await, third);
    rig.edit(json!({"spec": {"restartOn": null}})).await;
    rig.sync().await;
    assert_eq!(hashes(&rig).await, [Value::Null, Value::Null]);
}

#[tokio::test]
async fn classes_and_services_come_and_go_with_what_describes_them() {
    let mut rig = Rig::new().await;
    let namespace = rig.namespace.clone();
    rig.deploy(|instance| {
        let class = json!([{"metadata": {"name": format!("{namespace}-g")}}]);
        instance["spec"]["volumeGroupSnapshotClassTemplates"] = class;
        instance["spec"]["volumeAttributesClassTemplates"] =
            json!([{"metadata": {"name": format!("{namespace}-v")}, "parameters": {"a": "b"}}]);
        instance["spec"]["metrics"] = json!({"service": true, "serviceMonitor": {}});
        instance["spec"]["extraRules"] = json!({"node": {"namespace": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
        ]}});
    })
    .await;
    let titles = rig.titles().await;
    for expected in [
        "VolumeGroupSnapshotClass NS-g",
        "Service hostpath-controller-metrics",
        "Role csidriverdeployment-UID-extra-node",
        "RoleBinding csidriverdeployment-UID-extra-node",
    ] {
        assert!(
            titles.iter().any(|it| it == expected),
            "{expected}: {titles:?}"
        );
    }
    let synced = rig.condition("SyncSuccessful").await;
    assert_eq!(synced["status"], "True");
    let told = synced["message"].as_str().unwrap();
    assert!(told.contains("no ServiceMonitor definition"), "{told}");
    // Changed by somebody, it is taken back.
    let service = "hostpath-controller-metrics";
    let selector = json!({"spec": {"selector": {"app": "other"}}});
    rig.patch(Kind::Service, service, selector).await;
    rig.sync().await;
    let selector = rig.get(Kind::Service, service).await["spec"]["selector"].clone();
    assert!(selector["app"].is_null(), "{selector}");

    rig.edit(json!({"spec": {
        "volumeGroupSnapshotClassTemplates": null, "volumeAttributesClassTemplates": null, "metrics": null,
        "extraRules": null,
    }}))
    .await;
    rig.sync().await;
    let_attributes_classes_go(&rig).await;
    let titles = rig.titles().await;
    let is_left = |it: &&String| {
        let parts = ["Group", "Attributes", "Service host", "-extra-"];
        parts.iter().any(|part| it.contains(part))
    };
    assert_eq!(titles.iter().find(is_left), None);
}

/// Since 1.34 such classes have a finalizer, and the controller that takes it away does not run here.
async fn let_attributes_classes_go(rig: &Rig) {
    let titles = rig.titles().await;
    let classes = titles
        .iter()
        .filter_map(|it| it.strip_prefix("VolumeAttributesClass "));
    for class in classes {
        let name = class.replace("NS", &rig.namespace);
        let free = json!({"metadata": {"finalizers": null}});
        rig.patch(Kind::VolumeAttributesClass, &name, free).await;
    }
}

/// The Prometheus operator is installed, as far as it matters here.
async fn bring_service_monitors(client: &Client) {
    let definition = json!({
        "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": {
                "kind": "ServiceMonitor", "listKind": "ServiceMonitorList", "plural": "servicemonitors",
                "singular": "servicemonitor",
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let definitions = resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    let definitions = Api::<DynamicObject>::all_with(client.clone(), &definitions);
    let definition = serde_json::from_value(definition).unwrap();
    let created = definitions
        .create(&PostParams::default(), &definition)
        .await;
    created.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_monitor_comes_with_its_definition_and_goes_with_what_describes_it() {
    let running = Running::start().await;
    let client = running.client.clone();
    let mut instance = example("default");
    instance["spec"]["metrics"] =
        json!({"serviceMonitor": {"labels": {"team": "storage"}, "interval": "30s"}});
    running.create(instance).await;
    let is_missing = |instance: &Value| {
        let told = condition_of(instance, "SyncSuccessful")["message"].to_string();
        told.contains("no ServiceMonitor definition")
    };
    let instance = synced(&client, "hostpath").await;
    assert!(is_missing(&instance), "{instance:#}");
    bring_service_monitors(&client).await;
    let monitors = resource(
        "monitoring.coreos.com",
        "v1",
        "ServiceMonitor",
        "servicemonitors",
    );
    let monitors = Api::<DynamicObject>::namespaced_with(client.clone(), "default", &monitors);
    let name = "hostpath-controller-metrics";
    let made = eventually("it is made", async || {
        monitors.get_opt(name).await.ok().flatten()
    })
    .await;
    let described = made.data["spec"].clone();
    assert_eq!(described["endpoints"][0]["interval"], "30s", "{described}");
    assert_eq!(made.metadata.labels.unwrap()["team"], "storage");
    eventually("nothing is missing", async || {
        (!is_missing(&synced(&client, "hostpath").await)).then_some(())
    })
    .await;

    let (params, other) = (
        PatchParams::default(),
        json!({"spec": {"endpoints": [{"port": "other"}], "jobLabel": "mine"}}),
    );
    let edited = monitors.patch(name, &params, &Patch::Merge(other)).await;
    assert_ne!(edited.unwrap().data["spec"], described);
    eventually("the change is taken back", async || {
        let now = monitors.get(name).await.unwrap();
        (now.data["spec"] == described).then_some(())
    })
    .await;

    let nothing = Patch::Merge(json!({"spec": {"metrics": null}}));
    let edited = instances(&client)
        .patch("hostpath", &params, &nothing)
        .await;
    edited.unwrap();
    eventually("it is gone", async || {
        let found = monitors.get_opt(name).await.unwrap();
        found.is_none().then_some(())
    })
    .await;
    running.stop().await;
}
