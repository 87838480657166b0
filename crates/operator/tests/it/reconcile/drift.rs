//! Changes by others are taken back; what others add beside it stays.

use std::collections::{BTreeMap, BTreeSet};

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use stowage_operator::driver::Kind;

use crate::reconcile::rig::{Rig, example, resource};

/// Changes everything that a careless person could change.
async fn meddle(rig: &Rig, set: &Value, class: &str) {
    // Strategic merges would hide what was added; these are plain.
    let mut containers = set["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "ADDED", "value": "1"}));
    containers
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "added", "image": "x"}));
    let mut volumes = set["spec"]["template"]["spec"]["volumes"].clone();
    volumes
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "added", "emptyDir": {}}));
    let pod = json!({"containers": containers, "volumes": volumes, "tolerations": [{"operator": "Exists"}]});
    rig.patch(
        Kind::DaemonSet,
        "hostpath-node",
        json!({"spec": {"template": {"spec": pod}}}),
    )
    .await;
    rig.patch(
        Kind::Deployment,
        "hostpath-controller",
        json!({"spec": {"replicas": 5}}),
    )
    .await;
    let default = json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "false"}}});
    rig.patch(Kind::StorageClass, class, default).await;
    rig.patch(
        Kind::StorageClass,
        class,
        json!({"allowVolumeExpansion": true}),
    )
    .await;
    rig.patch(
        Kind::RoleBinding,
        "leader-election-hostpath",
        json!({"subjects": []}),
    )
    .await;
}

/// Takes out what every write changes.
fn strip(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in ["resourceVersion", "generation", "managedFields"] {
        metadata.remove(key);
    }
    // Counts what we undo, too.
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove("deprecated.daemonset.template.generation");
    }
    if metadata.get("annotations") == Some(&json!({})) {
        metadata.remove("annotations");
    }
}

#[tokio::test]
async fn edits_by_others_are_taken_back_and_their_labels_stay() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let class = format!("{}-a", rig.namespace);
    let mut before = rig.owned().await;
    let foreign = json!({"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}});
    for kind in [Kind::DaemonSet, Kind::Deployment, Kind::StorageClass] {
        let name = match kind {
            Kind::DaemonSet => "hostpath-node",
            Kind::Deployment => "hostpath-controller",
            _ => &class,
        };
        rig.patch(kind, name, foreign.clone()).await;
    }
    meddle(&rig, &before["DaemonSet hostpath-node"], &class).await;
    rig.sync().await;

    let mut after = rig.owned().await;
    for (title, object) in &mut after {
        let metadata = object["metadata"].as_object_mut().unwrap();
        if title.starts_with("DaemonSet")
            || title.starts_with("Deployment")
            || title.ends_with("-a")
        {
            assert_eq!(
                metadata["labels"].as_object_mut().unwrap().remove("team"),
                Some(json!("x")),
                "{title}"
            );
            assert_eq!(
                metadata["annotations"]
                    .as_object_mut()
                    .unwrap()
                    .remove("note"),
                Some(json!("y")),
                "{title}"
            );
        }
    }
    for object in before.values_mut().chain(after.values_mut()) {
        strip(object);
    }
    for (title, object) in &before {
        assert_eq!(object, &after[title], "{title}");
    }
    let events = rig.events().await;
    assert!(
        events.iter().any(|it| it.starts_with("DriftReverted")),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_restarted_operator_finds_what_drifted_while_it_was_away() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    rig.patch(
        Kind::Deployment,
        "hostpath-controller",
        json!({"spec": {"replicas": 5}}),
    )
    .await;
    let mut restarted = rig.restarted().await;
    restarted.sync().await;
    assert_eq!(
        restarted.get(Kind::Deployment, "hostpath-controller").await["spec"]["replicas"],
        1
    );
}

#[tokio::test]
async fn deleted_objects_come_back() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let before = rig.titles().await;
    for kind in Kind::ALL {
        let api = rig.api(kind);
        for (title, object) in rig.owned().await {
            if title.starts_with(&format!("{} ", kind.name())) {
                let name = object["metadata"]["name"].as_str().unwrap();
                api.delete(name, &DeleteParams::default()).await.unwrap();
            }
        }
    }
    assert_eq!(rig.titles().await, Vec::<String>::new());
    rig.sync().await;
    assert_eq!(rig.titles().await, before);
}

#[tokio::test]
async fn an_object_without_our_labels_is_still_ours_by_its_uid() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let uid = rig.get(Kind::DaemonSet, "hostpath-node").await["metadata"]["uid"].clone();
    let labels = json!({"metadata": {"labels": {
        "stowage.dev/owner-uid": null,
        "csidriver.storage.openshift.io/owner-name": null,
        "csidriver.storage.openshift.io/owner-namespace": null,
    }}});
    rig.patch(Kind::DaemonSet, "hostpath-node", labels).await;
    rig.sync().await;
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert_eq!(set["metadata"]["uid"], uid);
    assert_eq!(
        set["metadata"]["labels"]["csidriver.storage.openshift.io/owner-name"],
        "hostpath"
    );
}

#[tokio::test]
async fn the_default_class_is_the_administrators_where_the_template_leaves_it_open() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| instance["spec"]["storageClassTemplates"][1]["default"] = json!(null))
        .await;
    let class = format!("{}-b", rig.namespace);
    let mark = "storageclass.kubernetes.io/is-default-class";
    rig.patch(
        Kind::StorageClass,
        &class,
        json!({"metadata": {"annotations": {mark: "true"}}}),
    )
    .await;
    rig.sync().await;
    let annotations = rig.get(Kind::StorageClass, &class).await["metadata"]["annotations"].clone();
    assert_eq!(annotations[mark], "true");
}

#[tokio::test]
async fn annotations_go_when_their_template_drops_them() {
    let mut rig = Rig::new().await;
    let class = format!("{}-b", rig.namespace);
    rig.deploy(|instance| {
        instance["spec"]["storageClassTemplates"][1]["metadata"]["annotations"] =
            json!({"ours": "1"});
    })
    .await;
    rig.patch(
        Kind::StorageClass,
        &class,
        json!({"metadata": {"annotations": {"theirs": "2"}}}),
    )
    .await;
    assert_eq!(
        rig.get(Kind::StorageClass, &class).await["metadata"]["annotations"]["ours"],
        "1"
    );
    let mut spec = rig.instance().await["spec"].clone();
    spec["storageClassTemplates"][1]["metadata"]["annotations"] = json!(null);
    rig.edit(json!({"spec": spec})).await;
    rig.sync().await;
    let annotations = rig.get(Kind::StorageClass, &class).await["metadata"]["annotations"].clone();
    assert_eq!(
        (&annotations["ours"], &annotations["theirs"]),
        (&json!(null), &json!("2"))
    );
}

#[tokio::test]
async fn what_the_cluster_writes_into_an_account_stays() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let tokens =
        json!({"secrets": [{"name": "hostpath-token-x"}], "imagePullSecrets": [{"name": "site"}]});
    rig.patch(Kind::ServiceAccount, "hostpath", tokens).await;
    let before = rig.versions().await;
    rig.sync().await;
    assert_eq!(rig.versions().await, before);
    let label = json!({"metadata": {"labels": {"csidriver.storage.openshift.io/owner-name": "x"}}});
    rig.patch(Kind::ServiceAccount, "hostpath", label).await;
    rig.sync().await;
    let account = rig.get(Kind::ServiceAccount, "hostpath").await;
    assert_eq!(account["secrets"], json!([{"name": "hostpath-token-x"}]));
    assert_eq!(account["imagePullSecrets"], json!([{"name": "site"}]));
    assert_eq!(
        account["metadata"]["labels"]["csidriver.storage.openshift.io/owner-name"],
        "hostpath"
    );
}

#[tokio::test]
async fn a_pull_secret_that_is_no_longer_configured_leaves_the_account() {
    let mut rig = Rig::new().await;
    let configured = |text: &str| stowage_operator::config::OperatorConfig::parse(text).unwrap();
    rig.config
        .send_replace(configured("{imagePullSecrets: [old, kept]}"));
    rig.deploy(|_| ()).await;
    // The cluster's own, as OpenShift adds one to each account.
    let with_foreign =
        json!({"imagePullSecrets": [{"name": "old"}, {"name": "kept"}, {"name": "foreign"}]});
    rig.patch(Kind::ServiceAccount, "hostpath", with_foreign)
        .await;
    let mut restarted = rig.restarted().await;
    restarted
        .config
        .send_replace(configured("{imagePullSecrets: [kept]}"));
    restarted.sync().await;
    let names = async |rig: &Rig| -> Vec<String> {
        let account = rig.get(Kind::ServiceAccount, "hostpath").await;
        let secrets = account["imagePullSecrets"].as_array().cloned();
        let secrets = secrets.unwrap_or_default();
        let name = |it: &Value| it["name"].as_str().unwrap().to_owned();
        secrets.iter().map(name).collect()
    };
    let mut left = names(&restarted).await;
    left.sort();
    assert_eq!(left, ["foreign", "kept"]);
    restarted.config.send_replace(configured("{}"));
    restarted.sync().await;
    assert_eq!(names(&restarted).await, ["foreign"]);
}

#[tokio::test]
async fn a_restart_that_somebody_asked_for_is_no_drift() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let at = json!({"kubectl.kubernetes.io/restartedAt": "2026-11-16T12:00:00Z"});
    let restart = json!({"spec": {"template": {"metadata": {"annotations": at}}}});
    for (kind, name) in [
        (Kind::DaemonSet, "hostpath-node"),
        (Kind::Deployment, "hostpath-controller"),
    ] {
        rig.patch(kind, name, restart.clone()).await;
    }
    // The instance follows the generations of its objects.
    let versions = async |rig: &Rig| {
        let mut versions = rig.versions().await;
        versions.remove("instance");
        versions
    };
    let before = versions(&rig).await;
    rig.sync().await;
    assert_eq!(versions(&rig).await, before, "nothing is taken back");
    let events = rig.events().await;
    assert!(
        !events.iter().any(|it| it.starts_with("DriftReverted")),
        "{events:?}"
    );
    let mut restarted = rig.restarted().await;
    restarted.sync().await;
    assert_eq!(versions(&rig).await, before, "nor after a restart of ours");

    // Another change does not have the pods replaced twice.
    rig.edit(json!({"spec": {"probePeriodSeconds": 77}})).await;
    rig.sync().await;
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    let template = &set["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"], at);
    let probe = &template["spec"]["containers"][0]["livenessProbe"];
    assert_eq!(probe["periodSeconds"], 77);
}

/// Another instance in the namespace of a rig.
fn neighbour(rig: &Rig, state: &str) -> Value {
    let mut instance = example(&rig.namespace);
    instance["metadata"]["name"] = json!("neighbour");
    let spec = &mut instance["spec"];
    spec["driverName"] = json!(format!("neighbour.{}.example", rig.namespace));
    spec["managementState"] = json!(state);
    for class in spec["storageClassTemplates"].as_array_mut().unwrap() {
        let name = format!("neighbour-{}", class["metadata"]["name"].as_str().unwrap());
        class["metadata"]["name"] = json!(name);
        class["default"] = json!(false);
    }
    instance
}

async fn delete_all(rig: &Rig, objects: &BTreeMap<String, Value>) {
    for title in objects.keys() {
        let (kind, name) = title.split_once(' ').unwrap();
        let kind = Kind::ALL.into_iter().find(|it| it.name() == kind).unwrap();
        let at_once = DeleteParams::background();
        rig.api(kind).delete(name, &at_once).await.unwrap();
    }
}

#[tokio::test]
async fn objects_of_every_kind_come_back_but_those_of_an_unmanaged_neighbour() {
    let mut rig = Rig::new().await;
    rig.create(neighbour(&rig, "Managed")).await;
    rig.sync_named("neighbour").await;
    let theirs = rig.owned().await;
    let unmanaged = json!({"spec": {"managementState": "Unmanaged"}});
    let patch = Patch::Merge(unmanaged);
    rig.instances()
        .patch("neighbour", &PatchParams::default(), &patch)
        .await
        .unwrap();
    rig.sync_named("neighbour").await;

    rig.deploy(|_| ()).await;
    let all = rig.owned().await;
    let kinds = |objects: &BTreeMap<String, Value>| -> BTreeSet<String> {
        let kinds = objects.keys().filter_map(|it| it.split_once(' '));
        kinds.map(|(kind, _)| kind.to_owned()).collect()
    };
    assert_eq!(kinds(&theirs), kinds(&all));
    assert!(kinds(&all).len() >= 8, "{all:?}");
    delete_all(&rig, &all).await;
    assert!(rig.owned().await.is_empty());
    rig.sync().await;
    rig.sync_named("neighbour").await;

    let back: BTreeSet<_> = rig.owned().await.into_keys().collect();
    let expected = all.into_keys().filter(|it| !theirs.contains_key(it));
    assert_eq!(back, expected.collect());
}

/// What somebody could change in an object of a kind: every kind has something.
fn meddling(kind: Kind) -> Value {
    let labels =
        json!({"metadata": {"labels": {"csidriver.storage.openshift.io/owner-name": "other"}}});
    match kind {
        Kind::ClusterRole | Kind::Role => json!({"rules": []}),
        Kind::ClusterRoleBinding | Kind::RoleBinding => json!({"subjects": []}),
        Kind::StorageClass => json!({"allowVolumeExpansion": true}),
        Kind::VolumeSnapshotClass | Kind::VolumeGroupSnapshotClass => {
            json!({"deletionPolicy": "Retain"})
        }
        Kind::PodDisruptionBudget => json!({"spec": {"maxUnavailable": 2}}),
        Kind::Service => json!({"spec": {"selector": {"app": "other"}}}),
        Kind::ServiceMonitor => json!({"spec": {"endpoints": []}}),
        Kind::DaemonSet | Kind::Deployment => {
            json!({"spec": {"template": {"metadata": {"annotations": {"added": "x"}}}}})
        }
        // Nothing else of them can be changed, or is compared.
        Kind::ServiceAccount | Kind::CsiDriver | Kind::VolumeAttributesClass => labels,
        Kind::Pod | Kind::WekaContainer => unreachable!("not of an instance"),
    }
}

#[tokio::test]
async fn an_object_of_any_kind_is_changed_back() {
    let mut rig = Rig::new().await;
    let namespace = rig.namespace.clone();
    rig.deploy(|instance| {
        let spec = &mut instance["spec"];
        let class = |end: &str| json!([{"metadata": {"name": format!("{namespace}-{end}")}}]);
        spec["controllerReplicas"] = json!(2);
        spec["metrics"] = json!({"service": true, "serviceMonitor": {}});
        spec["volumeSnapshotClassTemplates"] = class("s");
        spec["volumeGroupSnapshotClassTemplates"] = class("g");
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
        spec["extraRules"] = json!({"node": {"namespace": [rule]}});
    })
    .await;
    let mut before = rig.owned().await;
    let mut kinds = BTreeSet::new();
    for title in before.keys() {
        let (kind, name) = title.split_once(' ').unwrap();
        let kind = Kind::ALL.into_iter().find(|it| it.name() == kind).unwrap();
        rig.patch(kind, name, meddling(kind)).await;
        kinds.insert(kind.name());
    }
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_everywhere()) {
        assert!(kinds.contains(kind.name()), "{kind:?} is looked at");
    }
    for kind in ["VolumeSnapshotClass", "VolumeGroupSnapshotClass", "Service"] {
        assert!(kinds.contains(kind), "{kind} is looked at");
    }
    rig.sync().await;
    let mut after = rig.owned().await;
    for object in before.values_mut().chain(after.values_mut()) {
        strip(object);
    }
    for (title, object) in &before {
        assert_eq!(object, &after[title], "{title}");
    }
    let events = rig.events().await.join("\n");
    for kind in kinds {
        let reverted = events.lines().filter(|it| it.starts_with("DriftReverted"));
        assert!(
            reverted.clone().any(|it| it.contains(kind)),
            "{kind}: {events}"
        );
    }
}

#[tokio::test]
async fn a_fight_over_an_object_is_named_and_told_as_one_event() {
    const REVERTS: usize = 10;
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let deployments = rig.api(Kind::Deployment);
    let meddler = PatchParams {
        field_manager: Some("meddler".to_owned()),
        ..PatchParams::default()
    };
    let mut reverted = 0;
    for _ in 0..=REVERTS {
        let meddling = Patch::Merge(json!({"spec": {"replicas": 9}}));
        let name = "hostpath-controller";
        let patched = deployments.patch(name, &meddler, &meddling).await;
        patched.unwrap();
        rig.reconcile("hostpath").await;
        let now = rig.get(Kind::Deployment, name).await["spec"]["replicas"].clone();
        reverted += usize::from(now == 1);
    }
    assert_eq!(reverted, REVERTS);
    let told = rig.condition("SyncSuccessful").await;
    assert_eq!(told["reason"], "Contested");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("is changed by `meddler`"), "{message}");

    rig.events().await;
    let events = resource("", "v1", "Event", "events");
    let events = Api::<DynamicObject>::namespaced_with(rig.client.clone(), &rig.namespace, &events);
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events
        .iter()
        .filter(|it| it.data["reason"] == "DriftReverted");
    let counts: Vec<_> = told.map(|it| it.data["count"].clone()).collect();
    assert_eq!(counts, [json!(REVERTS)]);
}
