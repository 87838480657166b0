//! Bad input: every mistake is told, and nothing is done.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use serde_json::json;
use stowage_operator::driver::Kind;

use crate::reconcile::faults::Mode;
use crate::reconcile::rig::Rig;
use crate::reconcile::running::eventually;

#[tokio::test]
async fn an_invalid_instance_lists_every_mistake_and_nothing_is_made() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| {
        instance["spec"]["driverSocket"] = json!("/csi.sock");
        instance["spec"]["maxUnavailableNodes"] = json!("200%");
        instance["spec"]["colour"] = json!("red");
    })
    .await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Invalid"))
    );
    assert_eq!(
        condition["message"],
        "spec.driverSocket: Invalid value: \"/csi.sock\": must not be in `/`: the whole directory of the socket is mounted, use \
         one such as /run/csi\n\
         spec.maxUnavailableNodes: Invalid value: \"200%\": must be a number of nodes above 0, or a part of them from `1%` to \
         `100%`\n\
         spec.colour: Forbidden: unknown field"
    );
    assert_eq!(rig.condition("Available").await["status"], "Unknown");
    assert_eq!(rig.titles().await, Vec::<String>::new());
    assert_eq!(
        rig.instance().await["status"]["observedGeneration"],
        json!(null)
    );
    let events = rig.events().await;
    assert_eq!(
        events
            .iter()
            .filter(|it| it.starts_with("SyncError"))
            .count(),
        3,
        "{events:?}"
    );
    // The same mistakes are no news.
    let before = rig.versions().await;
    rig.sync().await;
    assert_eq!(rig.versions().await, before);
    assert_eq!(rig.events().await.len(), events.len());
}

#[tokio::test]
async fn a_running_driver_stays_as_it_is_while_its_instance_is_invalid() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    rig.make_ready(1).await;
    rig.sync_until("available", |it| {
        crate::reconcile::rig::condition_of(it, "Available")["status"] == "True"
    })
    .await;
    let before = rig.owned().await;
    rig.edit(json!({"spec": {"driverSocket": "/csi.sock", "storageClassTemplates": []}}))
        .await;
    rig.sync().await;
    assert_eq!(rig.owned().await, before);
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "False");
    assert_eq!(
        rig.condition("Available").await["status"],
        "True",
        "it still runs"
    );
    let instance = rig.instance().await;
    assert_eq!(instance["status"]["observedGeneration"], 1);
}

#[tokio::test]
async fn pods_that_the_server_refuses_leave_no_half_driver() {
    let mut rig = Rig::new().await;
    let mut instance = crate::reconcile::rig::example(&rig.namespace);
    instance["spec"]["driverControllerTemplate"]["spec"]["containers"][0]["image"] = json!("");
    instance["spec"]["driverPerNodeTemplate"]["spec"]["containers"][0]["name"] =
        json!("Not A Name");
    rig.create(instance).await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "Rejected");
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("DaemonSet") && message.contains("Deployment"),
        "{message}"
    );
    assert!(
        message.contains("Not A Name") && message.contains("image: Required value"),
        "{message}"
    );
    assert_eq!(rig.titles().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_namespace_that_is_being_deleted_takes_no_driver() {
    let mut rig = Rig::new().await;
    rig.create(crate::reconcile::rig::example(&rig.namespace))
        .await;
    crate::reconcile::rig::server()
        .kubectl(&["delete", "namespace", &rig.namespace, "--wait=false"])
        .unwrap();
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "Forbidden");
    assert!(
        condition["message"]
            .as_str()
            .unwrap()
            .contains("being terminated"),
        "{condition}"
    );
    assert_eq!(rig.titles().await, Vec::<String>::new());
}

#[tokio::test]
async fn an_instance_that_cannot_be_read_says_so_and_does_not_stop_others() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    // As if it had been stored with another definition: the schema looks away from one field for a moment, and others of these
    // tests go on with the rest of it.
    let crd = "csidriverdeployments.csidriver.storage.openshift.io";
    let resource = crate::reconcile::rig::resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    let api = kube::Api::<kube::api::DynamicObject>::all_with(rig.client.clone(), &resource);
    let field = "/schema/openAPIV3Schema/properties/spec/properties/probePeriodSeconds";
    let place = format!("/spec/versions/0{field}");
    let schema = json!([{"op": "replace", "path": place, "value": {"x-kubernetes-preserve-unknown-fields": true}}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(schema).unwrap());
    let strict = api.get(crd).await.unwrap();
    api.patch(crd, &PatchParams::default(), &patch)
        .await
        .unwrap();
    let other = json!({"spec": {"probePeriodSeconds": "often", "managementState": "Unmanaged"}});
    let edit = async || {
        let patch = Patch::Merge(&other);
        rig.instances()
            .patch("hostpath", &PatchParams::default(), &patch)
            .await
    };
    eventually("the server goes by its new definition", async || {
        edit().await.ok()
    })
    .await;
    let strict = strict.data["spec"]["versions"][0].pointer(field);
    let back = json!([{"op": "replace", "path": place, "value": strict.unwrap()}]);
    let back: Patch<()> = Patch::Json(serde_json::from_value(back).unwrap());

    rig.sync().await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "Unreadable", "{condition}");
    assert!(
        condition["message"].as_str().unwrap().contains("often"),
        "{condition}"
    );
    let before = rig.versions().await;
    rig.sync().await;
    assert_eq!(rig.versions().await, before);

    // It was unmanaged, although nothing else of it can be read: its objects stay when it goes.
    let objects = rig.owned().await.len();
    rig.delete().await;
    rig.sync().await;
    assert!(rig.instance().await.is_null());
    assert_eq!(rig.owned().await.len(), objects);
    api.patch(crd, &PatchParams::default(), &back)
        .await
        .unwrap();
}

#[tokio::test]
async fn immutable_changes_are_shown_field_by_field_and_made_only_where_the_policy_says_so() {
    let mut rig = Rig::new().await;
    let class = format!("{}-a", rig.namespace);
    rig.deploy(|instance| {
        instance["spec"]["storageClassTemplates"][0]["parameters"] = json!({"pool": "gold"});
    })
    .await;
    let uid = rig.get(Kind::StorageClass, &class).await["metadata"]["uid"].clone();
    let mut spec = rig.instance().await["spec"].clone();
    spec["storageClassTemplates"][0]["parameters"]["pool"] = json!("silver");
    spec["storageClassTemplates"][0]["reclaimPolicy"] = json!("Retain");
    rig.edit(json!({"spec": spec})).await;
    rig.sync().await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("ImmutableFields"))
    );
    assert_eq!(
        condition["message"],
        format!(
            "StorageClass {class} cannot be changed in place: parameters.pool: \"gold\" -> \"silver\"; reclaimPolicy: \
             \"Delete\" -> \"Retain\". Set its `updatePolicy: Recreate` to have it deleted and created again, or revert \
             the change"
        )
    );
    assert_eq!(
        rig.get(Kind::StorageClass, &class).await["metadata"]["uid"],
        uid
    );

    spec["storageClassTemplates"][0]["updatePolicy"] = json!("Recreate");
    rig.edit(json!({"spec": spec})).await;
    rig.patch(
        Kind::StorageClass,
        &class,
        json!({"metadata": {"labels": {"team": "x"}}}),
    )
    .await;
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
    let now = rig.get(Kind::StorageClass, &class).await;
    assert_ne!(now["metadata"]["uid"], uid);
    assert_eq!(
        (&now["parameters"]["pool"], &now["reclaimPolicy"]),
        (&json!("silver"), &json!("Retain"))
    );
    assert_eq!(
        now["metadata"]["labels"]["team"], "x",
        "labels of others survive"
    );
}

#[tokio::test]
async fn a_class_of_any_kind_is_recreated_where_the_policy_says_so() {
    let mut rig = Rig::new().await;
    let name = format!("{}-g", rig.namespace);
    let class = |pool: &str, policy: &str| json!([{"metadata": {"name": name}, "parameters": {"pool": pool}, "updatePolicy": policy}]);
    let gold = class("gold", "Recreate");
    rig.deploy(|it| it["spec"]["volumeGroupSnapshotClassTemplates"] = gold)
        .await;
    let uid = rig.get(Kind::VolumeGroupSnapshotClass, &name).await["metadata"]["uid"].clone();
    assert!(uid.is_string());
    // Whether it may change in place is up to the definition; here it may not.
    rig.faults.refuse("PUT", &format!("/{name}"), "/other");
    let silver = |policy: &str| json!({"spec": {"volumeGroupSnapshotClassTemplates": class("silver", policy)}});
    rig.edit(silver("Report")).await;
    rig.sync().await;
    let told = rig.condition("SyncSuccessful").await;
    assert_eq!(told["reason"], "ImmutableFields", "{told}");
    rig.edit(silver("Recreate")).await;
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
    let now = rig.get(Kind::VolumeGroupSnapshotClass, &name).await;
    assert_ne!(now["metadata"]["uid"], uid);
    assert_eq!(now["parameters"]["pool"], "silver");
}

#[tokio::test]
async fn a_csidriver_in_use_is_not_recreated() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let driver = format!("{}.example", rig.namespace);
    let attachment = json!({
        "metadata": {"name": rig.namespace},
        "spec": {"attacher": driver, "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    });
    let resource = crate::reconcile::rig::resource(
        "storage.k8s.io",
        "v1",
        "VolumeAttachment",
        "volumeattachments",
    );
    let api = kube::Api::<kube::api::DynamicObject>::all_with(rig.client.clone(), &resource);
    let attachment = serde_json::from_value(attachment).unwrap();
    api.create(&PostParams::default(), &attachment)
        .await
        .unwrap();
    let template = json!({"spec": {"attachRequired": false}, "updatePolicy": "Recreate"});
    rig.edit(json!({"spec": {"csiDriver": template}})).await;
    let next = rig.reconcile("hostpath").await;
    assert_ne!(next, Action::await_change(), "it goes on by itself");
    let message = rig.condition("SyncSuccessful").await["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("spec.attachRequired: true -> false"),
        "{message}"
    );
    assert!(
        message.ends_with(&format!("VolumeAttachment ({} on node n)", rig.namespace)),
        "{message}"
    );

    api.delete(&rig.namespace, &DeleteParams::default())
        .await
        .unwrap();
    rig.sync().await;
    assert_eq!(
        rig.get(Kind::CsiDriver, &driver).await["spec"]["attachRequired"],
        false
    );
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
}

#[tokio::test]
async fn a_problem_that_lasts_does_not_make_each_look_a_search() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let class = json!({
        "metadata": {"name": format!("{}-x", rig.namespace)}, "provisioner": "somebody.else",
    });
    let class = serde_json::from_value(class).unwrap();
    let classes = rig.api(Kind::StorageClass);
    classes
        .create(&PostParams::default(), &class)
        .await
        .unwrap();
    let name = format!("{}-x", rig.namespace);
    rig.edit(json!({"spec": {"storageClassTemplates": [{"metadata": {"name": name}}]}}))
        .await;
    rig.reconcile("hostpath").await;
    let told = rig.condition("SyncSuccessful").await;
    assert_eq!(told["reason"], "Collision");
    rig.faults.start(Mode::Off);
    rig.reconcile("hostpath").await;
    assert_eq!(rig.faults.sent("labelSelector"), Vec::<String>::new());
    // An object whose creation failed half is known all the same.
    let delete = DeleteParams::default();
    classes.delete(&name, &delete).await.unwrap();
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
}
