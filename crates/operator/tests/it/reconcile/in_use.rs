//! A driver whose volumes exist stays, unless somebody insists.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use stowage_operator::driver::Kind;

use crate::reconcile::faults::Mode;
use crate::reconcile::pods;
use crate::reconcile::rig::{Rig, resource};
use crate::reconcile::running::eventually;

/// A volume of the driver, kept by its reclaim policy.
pub(crate) async fn volume(rig: &Rig, name: &str) -> Api<DynamicObject> {
    let volumes = resource("", "v1", "PersistentVolume", "persistentvolumes");
    let volumes = Api::all_with(rig.client.clone(), &volumes);
    let volume = json!({
        "metadata": {"name": format!("{}-{name}", rig.namespace)},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": format!("{}.example", rig.namespace), "volumeHandle": name},
        },
    });
    let volume = serde_json::from_value(volume).unwrap();
    volumes
        .create(&PostParams::default(), &volume)
        .await
        .unwrap();
    volumes
}

pub(crate) async fn take_away(volumes: &Api<DynamicObject>, rig: &Rig, name: &str) {
    let name = format!("{}-{name}", rig.namespace);
    // Its protection is lifted by a controller that does not run here.
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let _ = volumes.patch(&name, &PatchParams::default(), &free).await;
    let _ = volumes.delete(&name, &DeleteParams::default()).await;
}

#[tokio::test]
async fn a_driver_with_volumes_is_not_removed_and_says_what_holds_it() {
    let mut rig = Rig::new().await;
    let modes = json!({"volumeLifecycleModes": ["Persistent", "Ephemeral"]});
    rig.deploy(|instance| instance["spec"]["csiDriver"] = json!({"spec": modes}))
        .await;
    let volumes = volume(&rig, "kept").await;
    let inline = json!({
        "metadata": {"name": "inline"},
        "spec": {
            "automountServiceAccountToken": false, "containers": [{"name": "main", "image": "x"}],
            "volumes": [{"name": "v", "csi": {"driver": format!("{}.example", rig.namespace)}}],
        },
    });
    let pods = pods::create_as(&rig, inline).await;
    rig.delete().await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "InUse");
    let expected = format!(
        "CSI driver {0}.example is removed as soon as nothing uses it: 1 PersistentVolume ({0}-kept), 1 Pod \
         ({0}/inline); `uninstallPolicy: Force` removes it at once, and then these can be neither unmounted nor deleted",
        rig.namespace
    );
    assert_eq!(condition["message"], expected);
    // Nothing invites people to use it any more, and what is there can be unmounted and deleted.
    let titles = rig.titles().await;
    let has = |kind: &str| titles.iter().any(|it| it.starts_with(kind));
    let there = ["StorageClass ", "DaemonSet ", "Deployment ", "CSIDriver "].map(has);
    assert_eq!(there, [false, true, true, true], "{titles:?}");
    let driver = format!("{}.example", rig.namespace);
    let driver = rig.get(Kind::CsiDriver, &driver).await;
    assert_eq!(
        driver["metadata"]["annotations"]["stowage.dev/uninstalling"],
        "true"
    );

    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("inline", &at_once).await.unwrap();
    rig.reconcile("hostpath").await;
    assert!(
        !rig.instance().await.is_null(),
        "a volume that is kept counts"
    );
    take_away(&volumes, &rig, "kept").await;
    rig.sync().await;
    assert!(rig.instance().await.is_null());
    assert_eq!(rig.titles().await, Vec::<String>::new());
}

/// A journal of a sidecar, with these entries.
async fn journal(rig: &Rig, name: &str, driver: &str, entries: Value) {
    let leases = resource("coordination.k8s.io", "v1", "Lease", "leases");
    let leases = Api::<DynamicObject>::namespaced_with(rig.client.clone(), &rig.namespace, &leases);
    let content = json!({"version": 2, "classes": {}, "entries": entries}).to_string();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "annotations": {"stowage.dev/driver": driver, "stowage.dev/intents": content}},
    });
    let parameters = PatchParams::apply("test").force();
    let applied = leases.patch(name, &parameters, &Patch::Apply(lease)).await;
    applied.unwrap();
}

#[tokio::test]
async fn a_driver_with_an_open_intent_is_not_removed_because_its_volume_may_exist() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let driver = format!("{}.example", rig.namespace);
    let entries = json!([{"n": "default", "c": "data", "u": "1"}]);
    journal(&rig, "stowage-intents-ours", &driver, entries.clone()).await;
    journal(&rig, "stowage-intents-theirs", "other.example", entries).await;
    rig.delete().await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "InUse");
    let told = condition["message"].as_str().unwrap();
    assert!(told.contains(": 1 open intent (default/data);"), "{told}");
    journal(&rig, "stowage-intents-ours", &driver, json!([])).await;
    rig.sync().await;
    assert!(rig.instance().await.is_null());
}

/// The driver stays while a content of this kind exists: `spec` beside its driver.
async fn held_by_content(group: &str, kind: &str, plural: &str, spec: Value) {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let name = format!("{}-s", rig.namespace);
    let contents = resource(group, "v1", kind, plural);
    let contents = Api::<DynamicObject>::all_with(rig.client.clone(), &contents);
    let content = |name: &str, driver: &str| {
        let mut spec = spec.clone();
        spec["driver"] = json!(driver);
        spec["deletionPolicy"] = json!("Retain");
        let content = json!({
            "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        serde_json::from_value(content).unwrap()
    };
    let ours = content(&name, &format!("{}.example", rig.namespace));
    let foreign = content(&format!("{name}-foreign"), "other.example");
    for object in [&ours, &foreign] {
        let created = contents.create(&PostParams::default(), object).await;
        created.unwrap();
    }
    rig.delete().await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "InUse");
    let told = condition["message"].as_str().unwrap();
    let expected = format!(": 1 {kind} ({name});");
    assert!(told.contains(&expected), "{told}");
    let deletion = DeleteParams::default();
    contents.delete(&name, &deletion).await.unwrap();
    rig.sync().await;
    assert!(rig.instance().await.is_null());
}

#[tokio::test]
async fn a_driver_with_snapshots_stays_because_only_it_can_delete_them() {
    let snapshot = json!({
        "source": {"snapshotHandle": "h"}, "volumeSnapshotRef": {"name": "s", "namespace": "default"},
    });
    let (group, kind) = ("snapshot.storage.k8s.io", "VolumeSnapshotContent");
    held_by_content(group, kind, "volumesnapshotcontents", snapshot).await;
    let handles = json!({"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h"]});
    let of_group = json!({
        "source": {"groupSnapshotHandles": handles},
        "volumeGroupSnapshotRef": {"name": "g", "namespace": "default"},
    });
    let (group, kind) = ("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshotContent");
    held_by_content(group, kind, "volumegroupsnapshotcontents", of_group).await;
}

#[tokio::test]
async fn a_volume_that_comes_when_the_driver_is_gone_is_told_and_holds_nothing() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let pods = pods::create(&rig).await;
    rig.delete().await;
    rig.reconcile("hostpath").await;
    assert!(rig.get(Kind::DaemonSet, "hostpath-node").await.is_null());
    // Its last pod finished a call that was under way.
    let volumes = volume(&rig, "late").await;
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(pods::NAME, &at_once).await.unwrap();
    rig.sync().await;
    assert!(rig.instance().await.is_null());
    assert_eq!(rig.titles().await, Vec::<String>::new());
    let events = rig.events().await;
    let late = format!("1 PersistentVolume ({}-late)", rig.namespace);
    let is_told = |it: &String| it.starts_with("DriverInUse") && it.contains(&late);
    assert!(events.iter().any(is_told), "{events:#?}");
    take_away(&volumes, &rig, "late").await;
}

#[tokio::test]
async fn a_driver_is_held_by_its_volumes_whatever_its_status_says() {
    // That of an operator from before, and that of nobody knows whom.
    for (is_readable, status) in [
        (true, json!({"driverName": null})),
        (false, json!({"driverName": null, "nodes": null})),
    ] {
        let mut rig = Rig::new().await;
        rig.deploy(|_| ()).await;
        let volumes = volume(&rig, "kept").await;
        let (nothing, status) = (
            PatchParams::default(),
            Patch::Merge(json!({"status": status})),
        );
        let instances = rig.instances();
        let patched = instances.patch_status("hostpath", &nothing, &status).await;
        patched.unwrap();
        rig.delete().await;
        if is_readable {
            rig.reconcile("hostpath").await;
        } else {
            let unreadable = rig.unreadable("hostpath").await;
            rig.reconcile_seen(unreadable).await;
        }
        assert_eq!(rig.condition("SyncSuccessful").await["reason"], "InUse");
        assert!(!rig.get(Kind::DaemonSet, "hostpath-node").await.is_null());
        take_away(&volumes, &rig, "kept").await;
        rig.sync().await;
        assert!(rig.instance().await.is_null());
    }
}

#[tokio::test]
async fn force_removes_a_driver_at_once() {
    let mut rig = Rig::new().await;
    rig.deploy(|instance| instance["spec"]["uninstallPolicy"] = json!("Force"))
        .await;
    let volumes = volume(&rig, "kept").await;
    rig.delete().await;
    rig.sync().await;
    assert!(rig.instance().await.is_null());
    assert_eq!(rig.titles().await, Vec::<String>::new());
    take_away(&volumes, &rig, "kept").await;
}

#[tokio::test]
async fn a_namespace_that_is_being_deleted_is_not_held_and_the_loss_is_told() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let volumes = volume(&rig, "kept").await;
    rig.delete().await;
    rig.reconcile("hostpath").await;
    assert_eq!(rig.condition("SyncSuccessful").await["reason"], "InUse");
    let namespaces = resource("", "v1", "Namespace", "namespaces");
    let namespaces = Api::<DynamicObject>::all_with(rig.client.clone(), &namespaces);
    let deletion = DeleteParams::default();
    namespaces.delete(&rig.namespace, &deletion).await.unwrap();
    eventually("the instance goes", async || {
        rig.reconcile("hostpath").await;
        rig.instance().await.is_null().then_some(())
    })
    .await;
    assert_eq!(rig.titles().await, Vec::<String>::new());
    rig.events().await;
    let events = resource("", "v1", "Event", "events");
    let events = Api::<DynamicObject>::namespaced_with(rig.client.clone(), "default", &events);
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events.iter().find(|it| {
        it.data["reason"] == "DriverInUse"
            && it.data["involvedObject"]["name"] == json!(rig.namespace)
    });
    let told = told.expect("an event about the namespace");
    let message = told.data["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("{}-kept", rig.namespace)),
        "{message}"
    );
    take_away(&volumes, &rig, "kept").await;
}

#[tokio::test]
async fn a_driver_keeps_its_name_while_volumes_have_it() {
    let mut rig = Rig::new().await;
    // Classes name the driver, and cannot be changed in place.
    rig.deploy(|instance| instance["spec"]["storageClassTemplates"] = json!([]))
        .await;
    let volumes = volume(&rig, "kept").await;
    let (old, new) = (
        format!("{}.example", rig.namespace),
        format!("{}.renamed", rig.namespace),
    );
    let before = rig.versions().await;
    rig.edit(json!({"spec": {"driverName": new}})).await;
    rig.reconcile("hostpath").await;
    let condition = rig.condition("SyncSuccessful").await;
    assert_eq!(condition["reason"], "InUse");
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains(&format!("change it back to \"{old}\"")));
    assert!(
        message.contains(&format!("{}-kept", rig.namespace)),
        "{message}"
    );
    let mut after = rig.versions().await;
    after.insert("instance".to_owned(), before["instance"].clone());
    assert_eq!(after, before, "nothing was touched");

    take_away(&volumes, &rig, "kept").await;
    rig.sync().await;
    assert_eq!(rig.condition("SyncSuccessful").await["status"], "True");
    assert!(rig.get(Kind::CsiDriver, &old).await.is_null());
    assert!(!rig.get(Kind::CsiDriver, &new).await.is_null());
}

#[tokio::test]
async fn whether_a_driver_is_in_use_is_asked_in_pages_and_only_where_pods_may_use_it() {
    let mut rig = Rig::new().await;
    rig.deploy(|_| ()).await;
    let volumes = volume(&rig, "bound").await;
    let claim = json!({"spec": {"claimRef": {"namespace": rig.namespace, "name": "c"}}});
    let (name, bound) = (format!("{}-bound", rig.namespace), Patch::Merge(claim));
    let bound = volumes.patch(&name, &PatchParams::default(), &bound).await;
    bound.unwrap();
    let pod = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "automountServiceAccountToken": false, "containers": [{"name": "main", "image": "x"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            },
        })
    };
    pods::create_as(&rig, pod("user")).await;
    rig.delete().await;
    rig.faults.start(Mode::Off);
    rig.reconcile("hostpath").await;
    let told = rig.condition("SyncSuccessful").await["message"].clone();
    let user = format!("1 Pod ({}/user)", rig.namespace);
    assert!(told.as_str().unwrap().contains(&user), "{told}");
    // Without inline volumes a pod that uses the driver is where its claim is.
    let everywhere = rig.faults.sent(" /api/v1/pods?");
    assert_eq!(everywhere, Vec::<String>::new());
    for kind in ["persistentvolumes?", "volumeattachments?", "/pods?"] {
        let sent = rig.faults.sent(kind);
        let lists = sent
            .iter()
            .filter(|it| !it.contains("watch=true") && !it.contains("labelSelector"));
        assert!(lists.clone().all(|it| it.contains("limit=500")), "{sent:?}");
    }
    take_away(&volumes, &rig, "bound").await;
}
