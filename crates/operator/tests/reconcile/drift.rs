//! Changes by others are taken back; what others add beside it stays.

use kube::api::DeleteParams;
use serde_json::{Value, json};
use stowage_operator::driver::Kind;

use crate::rig::Rig;

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
