//! Instances that the operator of 2018 left behind: what it made for them is taken over where it is theirs beyond doubt.

use kube::api::PostParams;
use serde_json::{Value, json};
use stowage_operator::driver::Kind;

use crate::reconcile::rig::{Rig, example, server};

const REFERENCE: &str = "csidriver.storage.openshift.io/v1alpha1";

fn labels(namespace: &str) -> Value {
    json!({
        "csidriver.storage.openshift.io/owner-namespace": namespace,
        "csidriver.storage.openshift.io/owner-name": "hostpath",
    })
}

/// Metadata as the operator of 2018 wrote it; with a reference to the owner for what lives in a namespace.
fn metadata(rig: &Rig, name: &str, referred: Option<&str>) -> Value {
    let mut metadata = json!({"name": name, "labels": labels(&rig.namespace)});
    if let Some(uid) = referred {
        metadata["namespace"] = json!(rig.namespace);
        metadata["ownerReferences"] = json!([{
            "apiVersion": REFERENCE, "kind": "CSIDriverDeployment", "name": "hostpath", "uid": uid, "controller": true,
        }]);
    }
    metadata
}

fn pods(label: &str, workload: &str) -> Value {
    let labels = json!({format!("csidriver.storage.openshift.io/{label}"): workload});
    json!({
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "old", "image": "old"}]}},
    })
}

/// The objects of section "2018": all but the roles, which were installed by hand.
fn objects(rig: &Rig, uid: &str, referred: &str) -> Vec<(Kind, Value)> {
    let subject =
        json!([{"kind": "ServiceAccount", "name": "hostpath", "namespace": rig.namespace}]);
    let role = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let class = format!("{}-a", rig.namespace);
    let of = |name: &str| metadata(rig, name, Some(referred));
    vec![
        (Kind::ServiceAccount, json!({"metadata": of("hostpath")})),
        (
            Kind::RoleBinding,
            json!({"metadata": of("leader-election-hostpath"), "roleRef": role("elect"), "subjects": subject}),
        ),
        (
            Kind::ClusterRoleBinding,
            json!({
                "metadata": metadata(rig, &format!("csidriverdeployment-{uid}"), None),
                "roleRef": role("drive"), "subjects": subject,
            }),
        ),
        (
            Kind::StorageClass,
            json!({"metadata": metadata(rig, &class, None), "provisioner": format!("{}.example", rig.namespace)}),
        ),
        (
            Kind::DaemonSet,
            json!({"metadata": of("hostpath-node"), "spec": pods("daemonset", "hostpath-node")}),
        ),
        (
            Kind::Deployment,
            json!({"metadata": of("hostpath-controller"), "spec": pods("deployment", "hostpath-controller")}),
        ),
    ]
}

/// An instance with its objects; `referred` is the uid that the ownerReferences name, the instance's own by default.
async fn left_behind(rig: &Rig, referred: Option<&str>) -> Vec<(Kind, String, Value)> {
    let mut instance = example(&rig.namespace);
    instance["metadata"]["finalizers"] = json!(["csidriver.storage.openshift.io"]);
    rig.create(instance).await;
    let uid = rig.instance().await["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut made = Vec::new();
    for (kind, object) in objects(rig, &uid, referred.unwrap_or(&uid)) {
        let document = serde_json::from_value(object).unwrap();
        let api = rig.api(kind);
        let stored = api.create(&PostParams::default(), &document).await.unwrap();
        made.push((
            kind,
            stored.metadata.name.unwrap(),
            json!(stored.metadata.uid),
        ));
    }
    made
}

#[tokio::test]
async fn what_the_operator_of_2018_made_is_taken_over() {
    let mut rig = Rig::new().await;
    let made = left_behind(&rig, None).await;
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
    for (kind, name, uid) in &made {
        let object = rig.get(*kind, name).await;
        let metadata = &object["metadata"];
        assert!(
            metadata["labels"]["stowage.dev/owner-uid"].is_string(),
            "{object:#}"
        );
        assert_eq!(metadata["ownerReferences"], Value::Null, "{object:#}");
        // A binding can only be replaced; the rest is the same object, whose pods are replaced by its own strategy.
        let is_binding = matches!(kind, Kind::RoleBinding | Kind::ClusterRoleBinding);
        assert_eq!(metadata["uid"] != *uid, is_binding, "{object:#}");
    }
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert_eq!(
        set["spec"]["template"]["spec"]["containers"][0]["name"],
        "csi-driver"
    );
    // A reference that somebody adds again disappears again.
    let reference = json!([{
        "apiVersion": REFERENCE, "kind": "CSIDriverDeployment", "name": "hostpath",
        "uid": rig.instance().await["metadata"]["uid"],
    }]);
    rig.patch(
        Kind::DaemonSet,
        "hostpath-node",
        json!({"metadata": {"ownerReferences": reference}}),
    )
    .await;
    rig.sync().await;
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert_eq!(set["metadata"]["ownerReferences"], Value::Null);
}

#[tokio::test]
async fn objects_of_an_earlier_instance_of_the_same_name_are_not_taken_over() {
    let mut rig = Rig::new().await;
    left_behind(&rig, Some("00000000-0000-0000-0000-000000000000")).await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "Collision");
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert_eq!(
        set["spec"]["template"]["spec"]["containers"][0]["name"],
        "old"
    );
}

#[tokio::test]
async fn an_instance_of_2018_that_is_deleted_takes_its_objects_along() {
    let mut rig = Rig::new().await;
    let made = left_behind(&rig, None).await;
    rig.delete().await;
    rig.sync().await;
    assert!(rig.instance().await.is_null());
    for (kind, name, _) in &made {
        assert!(rig.get(*kind, name).await.is_null(), "{kind:?} {name}");
    }
}

#[tokio::test]
async fn a_driver_object_of_a_helm_release_is_taken_over_when_it_is_handed_over_and_not_before() {
    let mut rig = Rig::new().await;
    let name = format!("{}.example", rig.namespace);
    let of_helm = json!({
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "csi-wekafs", "meta.helm.sh/release-namespace": "csi-wekafs"},
        },
        "spec": {"attachRequired": true, "podInfoOnMount": true, "volumeLifecycleModes": ["Persistent"]},
    });
    let document = serde_json::from_value(of_helm).unwrap();
    let created = rig
        .api(Kind::CsiDriver)
        .create(&PostParams::default(), &document)
        .await;
    let uid = json!(created.unwrap().metadata.uid);
    let mut instance = example(&rig.namespace);
    instance["spec"]["csiDriver"] =
        json!({"spec": {"attachRequired": true, "podInfoOnMount": true}});
    rig.create(instance).await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "Collision", "{condition}");
    assert!(
        condition["message"].as_str().unwrap().contains(&name),
        "{condition}"
    );

    let adopt = format!("stowage.dev/adopt-by={}/hostpath", rig.namespace);
    server()
        .kubectl(&["annotate", "csidriver", &name, "--overwrite", &adopt])
        .unwrap();
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
    let adopted = rig.get(Kind::CsiDriver, &name).await;
    let metadata = &adopted["metadata"];
    assert_eq!(metadata["uid"], uid, "the same object");
    assert!(
        metadata["labels"]["stowage.dev/owner-uid"].is_string(),
        "{metadata}"
    );
    assert!(
        metadata["annotations"]["stowage.dev/adopt-by"].is_null(),
        "{metadata}"
    );
    assert_eq!(
        metadata["annotations"]["meta.helm.sh/release-name"], "csi-wekafs",
        "what others wrote stays"
    );
}

/// What the guide says to do with objects that an unmanaged instance has left, or that were restored from a backup.
fn hand_over(rig: &Rig) {
    let namespace = &rig.namespace;
    let kinds = "daemonset,deployment,poddisruptionbudget,service,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,\
                 csidriver,storageclass";
    let labels = format!(
        "--selector=csidriver.storage.openshift.io/owner-name=hostpath,csidriver.storage.openshift.io/owner-namespace={namespace}"
    );
    let annotation = format!("stowage.dev/adopt-by={namespace}/hostpath");
    let command = ["annotate", kinds, "-n", namespace, &labels, &annotation];
    server().kubectl(&command).unwrap();
}

#[tokio::test]
async fn what_an_unmanaged_instance_has_left_is_taken_over_when_it_is_handed_over() {
    let mut rig = Rig::new().await;
    // With a budget and a Service.
    let change = |instance: &mut Value| {
        instance["spec"]["controllerReplicas"] = json!(2);
        instance["spec"]["metrics"] = json!({"service": true});
    };
    rig.deploy(change).await;
    let titles = rig.titles().await;
    for kind in ["PodDisruptionBudget ", "Service "] {
        assert!(titles.iter().any(|it| it.starts_with(kind)), "{titles:?}");
    }
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    rig.edit(json!({"spec": {"managementState": "Unmanaged"}}))
        .await;
    rig.sync().await;
    rig.delete().await;
    rig.sync().await;
    let mut instance = example(&rig.namespace);
    change(&mut instance);
    rig.create(instance).await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "Collision");
    let told = condition["message"].as_str().unwrap();
    assert!(told.contains("stowage.dev/adopt-by"), "{told}");

    hand_over(&rig);
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
    let adopted = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert_eq!(adopted["metadata"]["uid"], set["metadata"]["uid"]);
    assert_eq!(adopted["spec"], set["spec"], "no pod is replaced");
    let annotations = &adopted["metadata"]["annotations"];
    assert!(
        annotations["stowage.dev/adopt-by"].is_null(),
        "{annotations}"
    );
    assert_eq!(rig.titles().await, titles, "nothing of before is left");
}
