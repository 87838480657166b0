//! Groups that exist on the storage system, and that somebody brought here with their members.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use stowage_api::snapshot::{VolumeGroupSnapshot, VolumeSnapshot};
use stowage_stage::{create, eventually};

use crate::groups::{members, ready};
use crate::scene::Scene;

/// What the driver has.
struct Taken {
    group: String,
    members: Vec<String>,
}

async fn taken(scene: &Scene) -> Taken {
    let mut volumes = Vec::new();
    for name in ["data", "logs"] {
        volumes.push(scene.claim(name, Value::Null).await);
    }
    let (group, members) = scene.rig.group_snapshot(volumes).await;
    Taken { group, members }
}

/// The two objects of a member: `monday` in a namespace, for example.
async fn bring_member(scene: &Scene, namespace: &str, name: &str, handle: &str) {
    let content = format!("{name}-{}", scene.rig.namespace);
    let object = json!({
        "metadata": {"name": content},
        "spec": {
            "deletionPolicy": "Delete",
            "driver": scene.rig.name,
            "source": {"snapshotHandle": handle},
            "volumeSnapshotRef": {"namespace": namespace, "name": name},
        },
    });
    create(&scene.rig.contents(), object).await;
    let object = json!({
        "metadata": {"name": name},
        "spec": {"source": {"volumeSnapshotContentName": content}},
    });
    create(&snapshots(scene, namespace), object).await;
}

fn snapshots(scene: &Scene, namespace: &str) -> Api<VolumeSnapshot> {
    Api::namespaced(scene.rig.client.clone(), namespace)
}

async fn bring_group(scene: &Scene, taken: &Taken) {
    let content = format!("group-{}", scene.rig.namespace);
    let object = json!({
        "metadata": {"name": content},
        "spec": {
            "deletionPolicy": "Delete",
            "driver": scene.rig.name,
            "source": {"groupSnapshotHandles": {
                "volumeGroupSnapshotHandle": taken.group,
                "volumeSnapshotHandles": taken.members,
            }},
            "volumeGroupSnapshotRef": {"namespace": scene.rig.namespace, "name": "brought"},
        },
    });
    create(&scene.rig.group_contents(), object).await;
    let object = json!({
        "metadata": {"name": "brought"},
        "spec": {"source": {"volumeGroupSnapshotContentName": content}},
    });
    create::<VolumeGroupSnapshot>(&scene.groups(), object).await;
}

async fn is_owned(scene: &Scene, name: &str, group: &VolumeGroupSnapshot) {
    let owned = format!("snapshot {name} names its group as its owner");
    eventually(&owned, async || {
        let snapshot = scene.snapshots().get(name).await.unwrap();
        let owners = snapshot.owner_references();
        let is = owners.iter().any(|owner| owner.uid == group.uid().unwrap());
        is.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_members_of_a_group_that_was_brought_here_go_with_it_and_not_alone() {
    let scene = Scene::new().await;
    let taken = taken(&scene).await;
    let own = scene.rig.namespace.clone();
    bring_member(&scene, &own, "first", &taken.members[0]).await;
    bring_group(&scene, &taken).await;
    let group = ready(&scene, "brought").await;
    // One came before its group, the other after it.
    bring_member(&scene, &own, "second", &taken.members[1]).await;
    members(&scene).await;
    for name in ["first", "second"] {
        is_owned(&scene, name, &group).await;
    }
    scene.delete("first").await;
    let text = scene.rig.event("first", "SnapshotDeletePending", "").await;
    assert!(text.contains("`brought`"), "{text}");
    assert_eq!(scene.rig.driver.snapshots().len(), 2);

    let params = DeleteParams::default();
    scene.groups().delete("brought", &params).await.unwrap();
    scene.group_is_gone("brought").await;
    scene.nothing_left().await;
    scene.end().await;
}

/// The driver deletes a group with all its members: whoever else has one is asked first.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_waits_while_a_snapshot_elsewhere_stands_for_one_of_its_members() {
    let scene = Scene::new().await;
    let taken = taken(&scene).await;
    bring_group(&scene, &taken).await;
    ready(&scene, "brought").await;
    let elsewhere = format!("else-{}", scene.rig.namespace);
    let object = json!({"metadata": {"name": elsewhere}});
    let client = scene.rig.client.clone();
    create::<Namespace>(&Api::all(client), object).await;
    bring_member(&scene, &elsewhere, "copy", &taken.members[0]).await;
    let there = snapshots(&scene, &elsewhere);
    eventually("the other snapshot is ready", async || {
        let copy = there.get("copy").await.unwrap();
        (copy.status?.ready_to_use == Some(true)).then_some(())
    })
    .await;

    let params = DeleteParams::default();
    scene.groups().delete("brought", &params).await.unwrap();
    let text = scene
        .rig
        .event("brought", "SnapshotDeletePending", "")
        .await;
    assert!(text.contains(&format!("`{elsewhere}/copy`")), "{text}");
    assert_eq!(scene.rig.driver.calls("DeleteVolumeGroupSnapshot"), 0);
    assert_eq!(scene.rig.driver.snapshots().len(), 2);

    there.delete("copy", &params).await.unwrap();
    scene.group_is_gone("brought").await;
    assert_eq!(scene.rig.driver.calls("DeleteVolumeGroupSnapshot"), 1);
    scene.end().await;
}
