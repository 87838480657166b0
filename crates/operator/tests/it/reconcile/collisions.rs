//! What belongs to somebody else is found and reported, never fought over.

use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use stowage_operator::driver::Kind;

use crate::reconcile::in_use;
use crate::reconcile::rig::{Rig, condition_of, example};

#[tokio::test]
async fn a_foreign_object_is_named_and_not_touched() {
    let mut rig = Rig::new().await;
    let name = format!("{}-a", rig.namespace);
    let class = json!({"metadata": {"name": name}, "provisioner": "somebody.else"});
    let class = serde_json::from_value(class).unwrap();
    rig.api(Kind::StorageClass)
        .create(&PostParams::default(), &class)
        .await
        .unwrap();
    rig.create(example(&rig.namespace)).await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Collision"))
    );
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!(
            "StorageClass {name} already exists and does not belong to"
        )),
        "{message}"
    );
    assert_eq!(
        rig.get(Kind::StorageClass, &name).await["provisioner"],
        "somebody.else"
    );
    assert_eq!(
        rig.instance().await["status"]["observedGeneration"],
        json!(null)
    );
    // The rest runs.
    assert!(!rig.get(Kind::DaemonSet, "hostpath-node").await.is_null());

    // And goes without taking the foreign class along.
    rig.delete().await;
    rig.sync().await;
    assert!(!rig.get(Kind::StorageClass, &name).await.is_null());
    rig.api(Kind::StorageClass)
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn of_two_instances_with_one_driver_the_first_has_it() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let mut second = example(&rig.namespace);
    second["metadata"]["name"] = json!("second");
    second["spec"]["storageClassTemplates"] = json!([]);
    rig.create(second).await;
    rig.reconcile("second").await;
    let condition = condition_of(&rig.instance_named("second").await, "SyncSuccessful");
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Collision"))
    );
    let expected = format!(
        "spec.driverName: Duplicate value: \"{0}.example\": CSIDriverDeployment {0}/hostpath already deploys it, and \
         a kubelet registers only one driver of a name",
        rig.namespace
    );
    assert_eq!(condition["message"], expected);
    assert!(rig.get(Kind::DaemonSet, "second-node").await.is_null());
    // The first one does not notice.
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");

    rig.delete().await;
    rig.sync().await;
    rig.sync_named("second").await;
    assert!(!rig.get(Kind::DaemonSet, "second-node").await.is_null());
}

#[tokio::test]
async fn a_driver_that_is_being_removed_or_renamed_still_belongs_to_its_instance() {
    for is_renamed in [false, true] {
        let mut rig = Rig::new().await;
        rig.deploy(|instance| instance["spec"]["storageClassTemplates"] = json!([]))
            .await;
        let volumes = in_use::volume(&rig, "kept").await;
        if is_renamed {
            let renamed = format!("{}.renamed", rig.namespace);
            rig.edit(json!({"spec": {"driverName": renamed}})).await;
        } else {
            rig.delete().await;
        }
        rig.reconcile("hostpath").await;
        assert_eq!(rig.condition("SyncSuccessful").await["reason"], "InUse");

        let mut second = example(&rig.namespace);
        second["metadata"]["name"] = json!("second");
        second["spec"]["storageClassTemplates"] = json!([]);
        rig.create(second).await;
        rig.reconcile("second").await;
        let told = condition_of(&rig.instance_named("second").await, "SyncSuccessful");
        assert_eq!(told["reason"], "Collision", "{told}");
        assert!(rig.get(Kind::DaemonSet, "second-node").await.is_null());

        in_use::take_away(&volumes, &rig, "kept").await;
        rig.sync().await;
        rig.sync_named("second").await;
        assert!(!rig.get(Kind::DaemonSet, "second-node").await.is_null());
    }
}

#[tokio::test]
async fn drivers_on_the_network_of_the_node_get_ports_of_their_own() {
    let mut rig = Rig::new().await;
    let on_host = |instance: &mut serde_json::Value| {
        instance["spec"]["driverPerNodeTemplate"]["spec"]["hostNetwork"] = json!(true);
        instance["spec"]["probePeriodSeconds"] = json!(60);
    };
    rig.deploy(on_host).await;
    let mut second = example(&rig.namespace);
    on_host(&mut second);
    second["metadata"]["name"] = json!("second");
    second["spec"]["driverName"] = json!(format!("{}.second", rig.namespace));
    second["spec"]["storageClassTemplates"] = json!([]);
    rig.create(second).await;
    rig.sync_named("second").await;
    let port = async |name: &str| {
        rig.get(Kind::DaemonSet, name).await["spec"]["template"]["spec"]["containers"][1]["args"][4]
            .clone()
    };
    let (first, second) = (port("hostpath-node").await, port("second-node").await);
    assert_eq!(
        (first, second),
        (json!("--health-port=9808"), json!("--health-port=9812"))
    );
    // Remembered over a restart.
    let mut restarted = rig.restarted().await;
    restarted.sync_named("second").await;
    assert_eq!(restarted.faults.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn an_account_of_somebody_else_gets_no_rights_and_no_pods() {
    let mut rig = Rig::new().await;
    let account = serde_json::from_value(json!({"metadata": {"name": "hostpath"}})).unwrap();
    rig.api(Kind::ServiceAccount)
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    rig.create(example(&rig.namespace)).await;
    rig.reconcile("hostpath").await;
    let granted = async |rig: &Rig| -> Vec<String> {
        let titles = rig.titles().await.into_iter();
        titles
            .filter(|it| it.contains("Binding ") || it.starts_with("Deployment "))
            .collect()
    };
    assert_eq!(granted(&rig).await, Vec::<String>::new());
    assert!(!rig.get(Kind::DaemonSet, "hostpath-node").await.is_null());
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "Collision");
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("nothing is granted to it and no pods run as it"),
        "{message}"
    );

    // The account goes: everything is made. Somebody makes it again: what was granted is taken away, pods go on.
    let account = rig.api(Kind::ServiceAccount);
    let gone = DeleteParams::default();
    account.delete("hostpath", &gone).await.unwrap();
    rig.sync().await;
    let everything = granted(&rig).await;
    assert!(everything.len() > 2, "{everything:?}");
    account.delete("hostpath", &gone).await.unwrap();
    let theirs = serde_json::from_value(json!({"metadata": {"name": "hostpath"}})).unwrap();
    account
        .create(&PostParams::default(), &theirs)
        .await
        .unwrap();
    rig.reconcile("hostpath").await;
    assert_eq!(granted(&rig).await, ["Deployment hostpath-controller"]);
}

#[tokio::test]
async fn the_node_account_of_one_instance_is_not_the_controllers_of_another() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let mut second = example(&rig.namespace);
    second["metadata"]["name"] = json!("hostpath-node");
    second["spec"]["driverName"] = json!(format!("{}.second", rig.namespace));
    second["spec"]["storageClassTemplates"] = json!([]);
    rig.create(second).await;
    rig.reconcile("hostpath-node").await;
    let condition = condition_of(&rig.instance_named("hostpath-node").await, "SyncSuccessful");
    assert_eq!(condition["reason"], "Collision");
    let owned = rig.owned().await;
    let bindings = owned.iter().filter(|(title, _)| title.contains("Binding "));
    for (title, binding) in bindings {
        assert_eq!(binding["subjects"][0]["name"], "hostpath", "{title}");
    }
    // Nor do its pods run as somebody else's account.
    let runs_as = |object: &serde_json::Value| {
        object["spec"]["template"]["spec"]["serviceAccountName"] == "hostpath-node"
    };
    let running = owned.iter().filter(|(_, object)| runs_as(object));
    let running: Vec<_> = running.map(|(title, _)| title.as_str()).collect();
    assert_eq!(running, ["DaemonSet hostpath-node"], "that of the first");
}
