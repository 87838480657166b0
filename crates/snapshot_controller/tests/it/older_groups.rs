//! Snapshots of groups on servers whose definitions are older than `v1`.

use devcluster::testing::ApiServer;
use serde_json::{Value, json};
use stowage_api::CrdGroup;
use stowage_stage::{Rig, eventually, install_kinds};

use crate::groups::members;
use crate::scene::Scene;

const STATUS_FIELDS: &str = "/schema/openAPIV3Schema/properties/status/properties";

/// The definitions of groups in one version only. In `v1beta1` the members of a content are pairs, as upstream's
/// definitions had them.
fn definitions(version: &str) -> String {
    let mut crds = json!(CrdGroup::GroupSnapshots.crds());
    for crd in crds.as_array_mut().unwrap() {
        let versions = crd["spec"]["versions"].as_array_mut().unwrap();
        versions.retain(|one| one["name"] == version);
        versions[0]["storage"] = json!(true);
        let fields = versions[0].pointer_mut(STATUS_FIELDS);
        if version == "v1beta1"
            && let Some(fields) = fields.and_then(Value::as_object_mut)
            && fields.remove("volumeSnapshotInfoList").is_some()
        {
            let text = json!({"type": "string"});
            let pair = json!({
                "type": "object",
                "required": ["snapshotHandle", "volumeHandle"],
                "properties": {"snapshotHandle": text, "volumeHandle": text},
            });
            let list = json!({"type": "array", "items": pair});
            fields.insert("volumeSnapshotHandlePairList".to_owned(), list);
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": crds}).to_string()
}

async fn server_with(version: &'static str) -> &'static ApiServer {
    let start = move || {
        let server: &'static ApiServer = Box::leak(Box::new(stowage_testing::api_server()));
        server
            .kubectl_with_input(&["apply", "-f", "-"], &definitions(version))
            .unwrap();
        install_kinds(server, &[CrdGroup::Snapshots]);
        server
    };
    tokio::task::spawn_blocking(start).await.unwrap()
}

async fn a_group_comes_and_goes(version: &'static str) {
    let server = server_with(version).await;
    let with_groups = |mut profile: stowage_memory_driver::Profile| {
        profile.groups = true;
        profile
    };
    let mut scene = Scene::on(Rig::on_server(server, with_groups).await).await;
    scene.start();
    let api_version = format!("groupsnapshot.storage.k8s.io/{version}");
    let (driver, namespace) = (&scene.rig.name, &scene.rig.namespace);
    for claim in ["data", "logs"] {
        scene.claim(claim, json!({"app": "shop"})).await;
    }
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": api_version,
            "kind": "VolumeGroupSnapshotClass",
            "metadata": {"name": driver},
            "driver": driver,
            "deletionPolicy": "Delete",
        },
        {
            "apiVersion": api_version,
            "kind": "VolumeGroupSnapshot",
            "metadata": {"name": "nightly", "namespace": namespace},
            "spec": {
                "volumeGroupSnapshotClassName": driver,
                "source": {"selector": {"matchLabels": {"app": "shop"}}},
            },
        },
    ]});
    server
        .kubectl_with_input(&["apply", "-f", "-"], &objects.to_string())
        .unwrap();

    let kind = format!("volumegroupsnapshots.{version}.groupsnapshot.storage.k8s.io");
    let get = [
        "get",
        &kind,
        "--namespace",
        namespace,
        "--output",
        "json",
        "nightly",
    ];
    eventually("the group is ready", async || {
        let group: Value = serde_json::from_str(&server.kubectl(&get).unwrap()).unwrap();
        (group["status"]["readyToUse"] == true).then_some(())
    })
    .await;
    for member in members(&scene).await {
        let owner = &member.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(owner.api_version, api_version);
    }
    assert_eq!(scene.rig.driver.snapshots().len(), 2);
    assert_eq!(scene.rig.driver.calls("CreateSnapshot"), 0);

    let delete = ["delete", &kind, "--namespace", namespace, "nightly"];
    server.kubectl(&delete).unwrap();
    scene.nothing_left().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_work_where_the_definitions_are_v1beta1() {
    a_group_comes_and_goes("v1beta1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_work_where_the_definitions_are_v1beta2() {
    a_group_comes_and_goes("v1beta2").await;
}
