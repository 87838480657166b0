//! Nothing is left when an instance goes.

use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::json;
use stowage_operator::driver::Kind;

use crate::reconcile::pods;
use crate::reconcile::rig::{Rig, example};

#[tokio::test]
async fn deletion_leaves_nothing() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| instance["spec"]["controllerReplicas"] = json!(2))
        .await;
    rig.delete().await;
    rig.sync().await;
    assert_eq!(rig.titles().await, Vec::<String>::new());
    assert!(rig.instance().await.is_null());
}

#[tokio::test]
async fn a_deletion_in_the_foreground_leaves_nothing_either() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let foreground = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    rig.instances()
        .delete("hostpath", &foreground)
        .await
        .unwrap();
    rig.sync().await;
    assert_eq!(rig.titles().await, Vec::<String>::new());
    // The last finalizer is the garbage collector's, which does not run here.
    let instance = rig.instance().await;
    assert_eq!(
        instance["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
}

#[tokio::test]
async fn what_is_already_gone_does_not_keep_an_instance() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let class = format!("{}-a", rig.namespace);
    rig.api(Kind::StorageClass)
        .delete(&class, &DeleteParams::default())
        .await
        .unwrap();
    rig.api(Kind::DaemonSet)
        .delete("hostpath-node", &DeleteParams::default())
        .await
        .unwrap();
    rig.delete().await;
    rig.sync().await;
    assert!(rig.instance().await.is_null());
    assert_eq!(rig.titles().await, Vec::<String>::new());
}

#[tokio::test]
async fn an_instance_that_became_invalid_is_removed_as_well() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    rig.edit(json!({"spec": {"driverSocket": "/csi.sock"}}))
        .await;
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["reason"], "Invalid");
    rig.delete().await;
    rig.sync().await;
    assert!(rig.instance().await.is_null());
    assert_eq!(rig.titles().await, Vec::<String>::new());
}

#[tokio::test]
async fn an_instance_that_was_never_valid_goes_at_once() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| instance["spec"]["driverSocket"] = json!(""))
        .await;
    assert_eq!(rig.instance().await["metadata"]["finalizers"], json!(null));
    rig.delete().await;
    assert!(rig.instance().await.is_null());
}

#[tokio::test]
async fn an_unmanaged_instance_lets_go_of_its_objects() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    rig.edit(json!({"spec": {"managementState": "Unmanaged"}}))
        .await;
    rig.sync().await;
    let before = rig.owned().await.len();
    rig.delete().await;
    rig.sync().await;
    assert!(rig.instance().await.is_null());
    assert_eq!(rig.owned().await.len(), before);
    let events = rig.events().await;
    assert!(
        events.iter().any(|it| it.starts_with("ObjectsKept")),
        "{events:?}"
    );
}

#[tokio::test]
async fn an_object_that_cannot_go_is_named() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let class = format!("{}-a", rig.namespace);
    rig.patch(
        Kind::StorageClass,
        &class,
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
    .await;
    rig.delete().await;
    rig.reconcile("hostpath").await;
    let instance = rig.instance().await;
    assert_eq!(instance["status"]["state"], "Removed");
    let message = instance["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("StorageClass {class} is being deleted")),
        "{message}"
    );
    rig.patch(
        Kind::StorageClass,
        &class,
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    rig.sync().await;
    assert!(rig.instance().await.is_null());
}

#[tokio::test]
async fn finalizers_of_others_stay() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| instance["metadata"]["finalizers"] = json!(["example.com/mine"]))
        .await;
    rig.delete().await;
    rig.sync().await;
    assert_eq!(
        rig.instance().await["metadata"]["finalizers"],
        json!(["example.com/mine"])
    );
    assert_eq!(rig.titles().await, Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_made_for_an_instance_that_went_before_it_got_its_finalizer() {
    let mut rig = Rig::new().await;
    for held in [false, true] {
        let mut instance = example(&rig.namespace);
        if held {
            instance["metadata"]["finalizers"] = json!(["example.com/theirs"]);
        }
        rig.create(instance).await;
        let seen = rig.seen("hostpath").await.unwrap();
        rig.delete().await;
        rig.reconcile_seen(seen).await;
        assert_eq!(rig.titles().await, Vec::<String>::new(), "held: {held}");
    }
    rig.edit(json!({"metadata": {"finalizers": []}})).await;
    rig.sync().await;
    assert!(rig.instance().await.is_null());
}

#[tokio::test]
async fn rights_stay_until_the_last_pod_is_gone() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let with_rights = async |rig: &Rig| {
        let titles = rig.titles().await;
        let has = |kind: &str| titles.iter().any(|it| it.starts_with(kind));
        [
            has("ServiceAccount "),
            has("ClusterRoleBinding "),
            has("RoleBinding "),
        ]
    };
    let pods = pods::create(&rig).await;
    rig.delete().await;
    rig.reconcile("hostpath").await;
    assert!(rig.get(Kind::DaemonSet, "hostpath-node").await.is_null());
    assert_eq!(with_rights(&rig).await, [true; 3]);
    let message = rig.instance().await["status"]["message"].clone();
    let expected = "Pod hostpath-node-x on node n is still there: its rights stay until it is gone";
    assert!(
        message.as_str().unwrap_or_default().starts_with(expected),
        "{message}"
    );

    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(pods::NAME, &at_once).await.unwrap();
    rig.sync().await;
    assert!(rig.instance().await.is_null());
    assert_eq!(rig.titles().await, Vec::<String>::new());
}
