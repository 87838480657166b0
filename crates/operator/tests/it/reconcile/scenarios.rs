//! What an instance becomes, step by step: the scenarios of the original's tests.

use kube::api::DeleteParams;
use serde_json::{Value, json};
use stowage_operator::driver::Kind;

use crate::reconcile::rig::Rig;
use crate::reconcile::running::eventually;

#[tokio::test]
async fn everything_is_created() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    assert_eq!(
        rig.titles().await,
        [
            "CSIDriver NS.example",
            "ClusterRole csidriverdeployment-UID",
            "ClusterRoleBinding csidriverdeployment-UID",
            "DaemonSet hostpath-node",
            "Deployment hostpath-controller",
            "Role leader-election-hostpath",
            "RoleBinding leader-election-hostpath",
            "ServiceAccount hostpath",
            "ServiceAccount hostpath-node",
            "StorageClass NS-a",
            "StorageClass NS-b",
        ]
    );
    let instance = rig.instance().await;
    assert_eq!(
        instance["metadata"]["finalizers"],
        json!(["csidriver.storage.openshift.io"])
    );
    let status = &instance["status"];
    assert_eq!(status["state"], "Managed");
    assert_eq!(
        status["observedGeneration"],
        instance["metadata"]["generation"]
    );
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
    assert_eq!(rig.condition("Available").await["reason"], "Starting");
    let children = status["children"].as_array().unwrap();
    assert_eq!(children.len(), 11);
    for (child, kind, name) in [
        (&children[0], "DaemonSet", "hostpath-node"),
        (&children[1], "Deployment", "hostpath-controller"),
    ] {
        assert_eq!(child["group"], "apps");
        assert_eq!(
            (&child["resource"], &child["name"]),
            (&json!(kind), &json!(name))
        );
        assert_eq!(child["lastGeneration"], 1);
        assert_eq!(child["namespace"], rig.namespace);
    }
}

#[tokio::test]
async fn an_account_is_made_only_where_a_template_names_none() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| {
        for template in ["driverPerNodeTemplate", "driverControllerTemplate"] {
            instance["spec"][template]["spec"]["serviceAccountName"] = json!("mine");
        }
    })
    .await;
    let titles = rig.titles().await;
    assert!(
        !titles
            .iter()
            .any(|title| title.contains("Role") || title.contains("Account")),
        "{titles:?}"
    );
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert_eq!(
        set["spec"]["template"]["spec"]["serviceAccountName"],
        "mine"
    );
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("True"), &json!("OwnServiceAccount"))
    );
}

#[tokio::test]
async fn there_is_no_probe_unless_it_is_asked_for() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let driver = "/spec/template/spec/containers/0";
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert!(set.pointer(driver).unwrap()["livenessProbe"].is_null());
    rig.edit(json!({"spec": {"probePeriodSeconds": 33}})).await;
    rig.sync().await;
    for (kind, name) in [
        (Kind::DaemonSet, "hostpath-node"),
        (Kind::Deployment, "hostpath-controller"),
    ] {
        let workload = rig.get(kind, name).await;
        let probe = &workload.pointer(driver).unwrap()["livenessProbe"];
        assert_eq!(
            (&probe["periodSeconds"], &probe["failureThreshold"]),
            (&json!(33), &json!(3))
        );
    }
}

#[tokio::test]
async fn a_second_sync_sends_nothing_and_neither_does_a_restarted_operator() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| {
        instance["spec"]["controllerReplicas"] = json!(2);
        // A field that this server does not know: what is stored is not what was sent.
        instance["spec"]["driverPerNodeTemplate"]["spec"]["fieldFromTheFuture"] = json!({"a": 1});
    })
    .await;
    let before = rig.versions().await;
    rig.faults.start(crate::reconcile::faults::Mode::Off);
    rig.sync().await;
    assert_eq!(rig.faults.writes(), Vec::<String>::new());
    let mut restarted = rig.restarted().await;
    restarted.sync().await;
    assert_eq!(restarted.faults.writes(), Vec::<String>::new());
    assert_eq!(rig.versions().await, before);
}

#[tokio::test]
async fn changes_of_the_instance_reach_its_objects() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let namespace = rig.namespace.clone();
    let mut spec = rig.instance().await["spec"].clone();
    spec["driverPerNodeTemplate"]["spec"]["containers"][0]["image"] = json!("driver:v2");
    spec["driverControllerTemplate"]["spec"]["containers"][0]["args"] = json!(["--changed"]);
    spec["driverSocket"] = json!("/other/place.sock");
    spec["nodeUpdateStrategy"] = json!("OnDelete");
    spec["storageClassTemplates"][0]["default"] = json!(false);
    spec["storageClassTemplates"][1]["allowVolumeExpansion"] = json!(true);
    rig.edit(json!({"spec": spec})).await;
    rig.sync().await;

    let update = |set: &Value| set["spec"]["updateStrategy"].clone();
    let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
    assert_eq!(update(&set)["type"], "OnDelete");
    for limit in [json!(3), json!("25%")] {
        rig.edit(json!({"spec": {"nodeUpdateStrategy": "Rolling", "maxUnavailableNodes": limit}}))
            .await;
        rig.sync().await;
        let set = rig.get(Kind::DaemonSet, "hostpath-node").await;
        assert_eq!(update(&set)["rollingUpdate"]["maxUnavailable"], limit);
    }
    let driver = &set["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(driver["image"], "driver:v2");
    assert!(
        driver["volumeMounts"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["mountPath"] == "/other")
    );
    let deployment = rig.get(Kind::Deployment, "hostpath-controller").await;
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["args"],
        json!(["--changed"])
    );
    let class = rig.get(Kind::StorageClass, &format!("{namespace}-a")).await;
    assert_eq!(
        class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"],
        "false"
    );
    let class = rig.get(Kind::StorageClass, &format!("{namespace}-b")).await;
    assert_eq!(class["allowVolumeExpansion"], true);
    let instance = rig.instance().await;
    assert_eq!(
        instance["status"]["observedGeneration"],
        instance["metadata"]["generation"]
    );
}

#[tokio::test]
async fn classes_come_and_go_with_their_templates() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let namespace = rig.namespace.clone();
    let classes =
        ["b", "c"].map(|name| json!({"metadata": {"name": format!("{namespace}-{name}")}}));
    let snapshots = json!([{"metadata": {"name": format!("{namespace}-s")}}]);
    rig.edit(json!({"spec": {"storageClassTemplates": classes, "volumeSnapshotClassTemplates": snapshots}})).await;
    rig.sync().await;
    let titles = rig.titles().await;
    let classes: Vec<_> = titles
        .iter()
        .filter(|title| title.contains("Class "))
        .collect();
    assert_eq!(
        classes,
        [
            "StorageClass NS-b",
            "StorageClass NS-c",
            "VolumeSnapshotClass NS-s"
        ]
    );
}

#[tokio::test]
async fn a_deployment_goes_when_its_template_goes() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| instance["spec"]["controllerReplicas"] = json!(2))
        .await;
    assert!(
        rig.titles()
            .await
            .contains(&"PodDisruptionBudget hostpath-controller".to_owned())
    );
    rig.edit(json!({"spec": {"driverControllerTemplate": null, "controllerReplicas": null}}))
        .await;
    rig.sync().await;
    let titles = rig.titles().await;
    // A driver that only mounts needs no rights.
    assert_eq!(
        titles,
        [
            "CSIDriver NS.example",
            "DaemonSet hostpath-node",
            "ServiceAccount hostpath-node",
            "StorageClass NS-a",
            "StorageClass NS-b",
        ]
    );
}

#[tokio::test]
async fn an_unmanaged_instance_is_left_alone() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let socket = rig.instance().await["spec"]["driverSocket"].clone();
    rig.edit(json!({"spec": {"managementState": "Unmanaged", "driverSocket": "/nonsense"}}))
        .await;
    rig.patch(
        Kind::Deployment,
        "hostpath-controller",
        json!({"spec": {"replicas": 7}}),
    )
    .await;
    rig.api(Kind::DaemonSet)
        .delete("hostpath-node", &DeleteParams::default())
        .await
        .unwrap();
    let before = rig.instance().await["status"].clone();
    rig.sync().await;
    let after = rig.instance().await["status"].clone();
    assert_eq!(after["state"], "Unmanaged");
    assert_eq!(
        (&after["conditions"], &after["children"]),
        (&before["conditions"], &before["children"])
    );
    assert!(rig.get(Kind::DaemonSet, "hostpath-node").await.is_null());
    assert_eq!(
        rig.get(Kind::Deployment, "hostpath-controller").await["spec"]["replicas"],
        7
    );

    rig.edit(json!({"spec": {"managementState": "Managed", "driverSocket": socket}}))
        .await;
    rig.sync().await;
    assert!(!rig.get(Kind::DaemonSet, "hostpath-node").await.is_null());
    assert_eq!(
        rig.get(Kind::Deployment, "hostpath-controller").await["spec"]["replicas"],
        1
    );
}

#[tokio::test]
async fn sidecars_run_as_the_user_of_the_driver() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| {
        let driver = &mut instance["spec"]["driverControllerTemplate"]["spec"]["containers"][0];
        driver["securityContext"] = json!({"runAsUser": 1001, "runAsGroup": 1002});
    })
    .await;
    let deployment = rig.get(Kind::Deployment, "hostpath-controller").await;
    let sidecar = &deployment["spec"]["template"]["spec"]["containers"][1];
    assert_eq!(
        sidecar["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
            "runAsUser": 1001, "runAsGroup": 1002,
        })
    );
}

#[tokio::test]
async fn rights_to_secrets_follow_the_classes_of_the_driver() {
    let mut rig = Rig::new().await;
    let namespace = rig.namespace.clone();
    let parameters = |secret: &str| {
        json!({
            "csi.storage.k8s.io/provisioner-secret-name": secret,
            "csi.storage.k8s.io/provisioner-secret-namespace": namespace,
        })
    };
    rig.deploy(|instance| {
        instance["spec"]["storageClassTemplates"][0]["parameters"] = parameters("own");
    })
    .await;
    let role = rig.instance().await["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    let role = format!("csidriverdeployment-{role}-secrets");
    let names =
        async |rig: &Rig| rig.get(Kind::Role, &role).await["rules"][0]["resourceNames"].clone();
    assert_eq!(names(&rig).await, json!(["own"]), "in the first sync");

    // Somebody else's class of the same driver.
    let foreign = format!("{namespace}-foreign");
    let class = json!({
        "metadata": {"name": foreign}, "provisioner": format!("{namespace}.example"), "parameters": parameters("theirs"),
    });
    let class = serde_json::from_value(class).unwrap();
    rig.api(Kind::StorageClass)
        .create(&kube::api::PostParams::default(), &class)
        .await
        .unwrap();
    eventually("the rights for both secrets", async || {
        rig.sync().await;
        (names(&rig).await == json!(["own", "theirs"])).then_some(())
    })
    .await;
    rig.api(Kind::StorageClass)
        .delete(&foreign, &DeleteParams::default())
        .await
        .unwrap();
    eventually("those for its own alone", async || {
        rig.sync().await;
        (names(&rig).await == json!(["own"])).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_changed_configuration_reaches_all_drivers() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let config =
        "{registryPrefix: mirror.example, deploymentReplicas: 3, imagePullSecrets: [site]}";
    let config = stowage_operator::config::OperatorConfig::parse(config).unwrap();
    rig.config.send_replace(config);
    rig.sync().await;
    let deployment = rig.get(Kind::Deployment, "hostpath-controller").await;
    assert_eq!(deployment["spec"]["replicas"], 3);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(
        pod["containers"][1]["image"],
        "mirror.example/stowage:0.1.0"
    );
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "site"}]));
    let account = rig.get(Kind::ServiceAccount, "hostpath").await;
    assert_eq!(account["imagePullSecrets"], json!([{"name": "site"}]));
}
