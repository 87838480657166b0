//! Volumes that are copies of others, or of snapshots.

use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use stowage_api::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use stowage_csi::proto::csi::controller_server::Controller as _;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_csi::proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
use stowage_csi::proto::csi::{CreateSnapshotRequest, VolumeContentSource};
use stowage_memory_driver::{Fault, MemoryDriver, Mishap, Moment, Trouble};
use stowage_sidecar::controller::run;
use stowage_stage::{Rig, create, eventually, merge};
use tonic::Code;

const CLONING: &str = "provisioner.storage.kubernetes.io/cloning-protection";
const RESTORING: &str = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";

fn copy_of(name: &str) -> Value {
    json!({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": name}}})
}

pub fn restored(name: &str) -> Value {
    let source = json!({
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name,
    });
    json!({"spec": {"dataSource": source}})
}

/// A bound claim `original`, and its volume's id.
async fn with_original(rig: &Rig) -> String {
    rig.class(json!({})).await;
    rig.claim("original", json!({})).await;
    let volume = rig.bound("original").await;
    volume.spec.unwrap().csi.unwrap().volume_handle
}

async fn finalizers_of_claim(rig: &Rig, name: &str) -> Vec<String> {
    let claim = rig.claims().get_opt(name).await.unwrap();
    claim
        .map(|claim| claim.finalizers().to_vec())
        .unwrap_or_default()
}

fn snapshots(rig: &Rig) -> Api<VolumeSnapshot> {
    Api::namespaced(rig.client.clone(), &rig.namespace)
}

/// A snapshot as the snapshot controller leaves it; returns the driver's id.
async fn snapshot(rig: &Rig, name: &str, volume: &str, content: Value, status: Value) -> String {
    snapshot_on(&rig.driver, rig, name, volume, content, status).await
}

/// The same, taken by the driver of a node.
pub async fn snapshot_on(
    driver: &MemoryDriver,
    rig: &Rig,
    name: &str,
    volume: &str,
    content: Value,
    status: Value,
) -> String {
    let request = CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: name.to_owned(),
        ..CreateSnapshotRequest::default()
    };
    let request = tonic::Request::new(request);
    let answer = driver.create_snapshot(request).await;
    let handle = answer.unwrap().into_inner().snapshot.unwrap().snapshot_id;
    let object = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": name},
        "spec": {"source": {"persistentVolumeClaimName": "original"}},
    });
    let made = create(&snapshots(rig), object).await;
    let contents = Api::<VolumeSnapshotContent>::all(rig.client.clone());
    let bound = format!("snapcontent-{}-{name}", rig.namespace);
    let mut object = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": bound},
        "spec": {
            // A snapshot that exists already: the snapshot role beside us has nothing to take.
            "deletionPolicy": "Delete", "driver": rig.name, "source": {"snapshotHandle": handle},
            "sourceVolumeMode": "Filesystem",
            "volumeSnapshotRef": {"name": name, "namespace": rig.namespace, "uid": made.uid()},
        },
    });
    merge(&mut object, content);
    create(&contents, object).await;
    let known =
        json!({"status": {"readyToUse": true, "restoreSize": 1 << 30, "snapshotHandle": handle}});
    let patch = |value| Patch::Merge(value);
    let params = PatchParams::default();
    contents
        .patch_status(&bound, &params, &patch(known))
        .await
        .unwrap();
    let mut known = json!({"readyToUse": true, "boundVolumeSnapshotContentName": bound});
    merge(&mut known, status);
    let known = patch(json!({ "status": known }));
    snapshots(rig)
        .patch_status(name, &params, &known)
        .await
        .unwrap();
    handle
}

/// Planning writes nothing: what is copied is protected when all else is known to be in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_lacks_its_secret_leaves_its_original_alone() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    with_original(&rig).await;
    let guarded = format!("{}-guarded", rig.name);
    let object = json!({
        "metadata": {"name": guarded},
        "provisioner": rig.name,
        "parameters": {
            "csi.storage.k8s.io/provisioner-secret-name": "login",
            "csi.storage.k8s.io/provisioner-secret-namespace": rig.namespace,
        },
    });
    create::<StorageClass>(&Api::all(rig.client.clone()), object).await;
    let mut copy = copy_of("original");
    copy["spec"]["storageClassName"] = json!(guarded);
    rig.claim("copy", copy).await;
    rig.event("copy", "ProvisioningFailed", "does not exist")
        .await;
    let finalizers = finalizers_of_claim(&rig, "original").await;
    assert!(!finalizers.contains(&CLONING.to_owned()), "{finalizers:?}");

    rig.secret("login", "password", "s3cret").await;
    rig.bound("copy").await;
    let finalizers = finalizers_of_claim(&rig, "original").await;
    assert!(finalizers.contains(&CLONING.to_owned()), "{finalizers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_copied_and_kept_until_its_copies_are_made() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    let handle = with_original(&rig).await;
    let slow = Trouble::Delay(std::time::Duration::from_secs(1));
    rig.driver
        .upset("CreateVolume", Mishap::new(Moment::Before, slow));
    rig.claim("copy", copy_of("original")).await;
    rig.claim("second", copy_of("original")).await;
    rig.called("CreateVolume", 3).await;
    assert!(
        finalizers_of_claim(&rig, "original")
            .await
            .contains(&CLONING.to_owned())
    );
    rig.delete_claim("original").await;
    let source = Type::Volume(VolumeSource {
        volume_id: handle.clone(),
    });
    let source = Some(VolumeContentSource {
        r#type: Some(source),
    });
    assert_eq!(rig.creations()[1].volume_content_source, source);
    rig.bound("copy").await;
    rig.bound("second").await;
    rig.claim_is_gone("original").await;
    eventually("the original's volume is gone", async || {
        rig.driver.deleted_volumes().contains(&handle).then_some(())
    })
    .await;
    assert_eq!(rig.driver.volumes().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_cannot_be_copied_says_why() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    with_original(&rig).await;
    let small = json!({"spec": {"resources": {"requests": {"storage": "1Mi"}}}});
    let block = json!({"spec": {"volumeMode": "Block"}});
    let other = format!("{}-other", rig.name);
    rig.class(json!({"metadata": {"name": other}, "provisioner": "kubernetes.io/no-provisioner"}))
        .await;
    rig.claim("unbound", json!({"spec": {"storageClassName": other}}))
        .await;
    for (number, (source, more, says)) in [
        (
            "nobody",
            json!({}),
            "claim `nobody` cannot be copied: it does not exist",
        ),
        ("unbound", json!({}), "it is not bound yet"),
        (
            "original",
            small,
            "it has 1073741824 bytes and the claim asks for 1048576",
        ),
        (
            "original",
            block,
            "its volumeMode is Filesystem and the claim's is Block",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut claim = copy_of(source);
        merge(&mut claim, more);
        let name = format!("copy-{number}");
        rig.claim(&name, claim).await;
        rig.event(&name, "ProvisioningFailed", says).await;
    }
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
    assert!(
        !finalizers_of_claim(&rig, "original")
            .await
            .contains(&CLONING.to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_cannot_copy_is_not_asked_to() {
    let rig = Rig::new(|mut profile| {
        profile.topology = false;
        profile.without(Can::CloneVolume)
    })
    .await;
    let _sidecar = rig.sidecar(run, &[]);
    with_original(&rig).await;
    rig.claim("copy", copy_of("original")).await;
    rig.event(
        "copy",
        "ProvisioningFailed",
        "the driver cannot clone volumes",
    )
    .await;
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_ignores_the_source_has_its_volume_deleted_again() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    with_original(&rig).await;
    rig.driver.set(Fault::SourceNotNamed);
    rig.claim("copy", copy_of("original")).await;
    rig.event(
        "copy",
        "ProvisioningFailed",
        "without the content that was requested",
    )
    .await;
    rig.called("DeleteVolume", 1).await;
    rig.driver.mend();
    rig.bound("copy").await;
    assert_eq!(rig.driver.volumes().len(), 2);
}

/// Drivers have more than one way to write an id: that there is a source says that it was copied.
#[tokio::test(flavor = "multi_thread")]
async fn a_driver_may_write_the_source_in_its_own_way() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    with_original(&rig).await;
    rig.driver.set(Fault::WrongSourceNamed);
    rig.claim("copy", copy_of("original")).await;
    rig.bound("copy").await;
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
}

/// What a driver made of a size is its own affair: who asks for as much again gets as much again.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_may_be_as_small_as_its_original_asked_to_be() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    with_original(&rig).await;
    let rounded_up = json!({"status": {"capacity": {"storage": "2Gi"}}});
    let params = PatchParams::default();
    let patch = Patch::Merge(rounded_up);
    let patched = rig.claims().patch_status("original", &params, &patch).await;
    patched.unwrap();
    rig.claim("copy", copy_of("original")).await;
    rig.bound("copy").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_restored_and_kept_only_meanwhile() {
    let rig = Rig::plain().await;
    rig.install_snapshot_kinds().await;
    let sidecar = rig.sidecar(run, &[]);
    let volume = with_original(&rig).await;
    let handle = snapshot(&rig, "snap", &volume, json!({}), json!({})).await;
    let slow = Trouble::Delay(std::time::Duration::from_secs(1));
    rig.driver
        .upset("CreateVolume", Mishap::new(Moment::Before, slow));
    rig.claim("copy", restored("snap")).await;
    rig.called("CreateVolume", 2).await;
    let kept = snapshots(&rig).get("snap").await.unwrap();
    assert_eq!(kept.finalizers(), [RESTORING]);
    snapshots(&rig)
        .delete("snap", &DeleteParams::default())
        .await
        .unwrap();
    rig.bound("copy").await;
    let source = Type::Snapshot(SnapshotSource {
        snapshot_id: handle,
    });
    let source = Some(VolumeContentSource {
        r#type: Some(source),
    });
    assert_eq!(rig.creations()[1].volume_content_source, source);
    eventually("the snapshot is gone", async || {
        snapshots(&rig)
            .get_opt("snap")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    sidecar
        .shows(&["provision_total", "source=\"VolumeSnapshot\"", " 1"])
        .await;
}

/// Our own finalizer keeps it: a claim that would not use it would wait for it to go, and it for the claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_deleted_while_a_copy_waits_is_still_restored() {
    let rig = Rig::plain().await;
    rig.install_snapshot_kinds().await;
    let _sidecar = rig.sidecar(run, &[]);
    let volume = with_original(&rig).await;
    snapshot(&rig, "snap", &volume, json!({}), json!({})).await;
    let refusal = Mishap::refuse(Code::Internal, "not now");
    rig.driver.upset("CreateVolume", refusal);
    rig.claim("copy", restored("snap")).await;
    rig.event("copy", "ProvisioningFailed", "not now").await;
    let params = DeleteParams::default();
    snapshots(&rig).delete("snap", &params).await.unwrap();
    rig.called("CreateVolume", rig.driver.calls("CreateVolume") + 2)
        .await;
    rig.driver.mend();
    rig.bound("copy").await;
    eventually("the snapshot is gone", async || {
        let left = snapshots(&rig).get_opt("snap").await.unwrap();
        left.is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_the_go_provisioner_left_protected_is_let_go() {
    let rig = Rig::plain().await;
    rig.install_snapshot_kinds().await;
    let object = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": "left", "finalizers": [RESTORING]},
        "spec": {"source": {"persistentVolumeClaimName": "gone"}},
    });
    create(&snapshots(&rig), object).await;
    let _sidecar = rig.sidecar(run, &[]);
    eventually("the finalizer is gone", async || {
        let left = snapshots(&rig).get("left").await.unwrap();
        left.finalizers().is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_cannot_be_restored_says_why() {
    let rig = Rig::plain().await;
    rig.install_snapshot_kinds().await;
    let _sidecar = rig.sidecar(run, &[]);
    let volume = with_original(&rig).await;
    let foreign = json!({"spec": {"driver": "another.csi.test"}});
    let stranger = json!({"spec": {"volumeSnapshotRef": {"uid": "another"}}});
    let raw = json!({"spec": {"sourceVolumeMode": "Block"}});
    let unready = json!({"readyToUse": false});
    let unbound = json!({"boundVolumeSnapshotContentName": null});
    let none = json!({});
    for (name, content, status, says) in [
        (
            "foreign",
            &foreign,
            &none,
            "it is of driver `another.csi.test`",
        ),
        ("stranger", &stranger, &none, "belongs to another snapshot"),
        (
            "raw",
            &raw,
            &none,
            "its volumeMode is Block and the claim's is Filesystem",
        ),
        ("unready", &none, &unready, "it is not ready yet"),
        ("unbound", &none, &unbound, "it has no content yet"),
    ] {
        snapshot(&rig, name, &volume, content.clone(), status.clone()).await;
        rig.claim(name, restored(name)).await;
        let message = rig.event(name, "ProvisioningFailed", says).await;
        assert!(
            message.contains(&format!("snapshot `{name}` cannot be copied")),
            "{message}"
        );
        assert!(
            snapshots(&rig)
                .get(name)
                .await
                .unwrap()
                .finalizers()
                .is_empty()
        );
    }
    assert_eq!(rig.driver.calls("CreateVolume"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_smaller_than_its_snapshot_says_how_much_it_takes() {
    let rig = Rig::plain().await;
    rig.install_snapshot_kinds().await;
    let _sidecar = rig.sidecar(run, &[]);
    let volume = with_original(&rig).await;
    let none = json!({});
    snapshot(&rig, "monday", &volume, none.clone(), none).await;
    let mut small = restored("monday");
    small["spec"]["resources"] = json!({"requests": {"storage": "500Mi"}});
    rig.claim("small", small).await;
    let says = "it has 1073741824 bytes and the claim asks for 524288000: ask for at least as much";
    rig.event("small", "ProvisioningFailed", says).await;
    // Nothing else is disturbed, and the driver is not asked for what it cannot do.
    rig.claim("large", restored("monday")).await;
    rig.bound("large").await;
    assert_eq!(rig.driver.calls("CreateVolume"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_can_allow_a_snapshot_in_the_other_mode() {
    let rig = Rig::plain().await;
    rig.install_snapshot_kinds().await;
    let _sidecar = rig.sidecar(run, &[]);
    let volume = with_original(&rig).await;
    let allowed = "snapshot.storage.kubernetes.io/allow-volume-mode-change";
    let content = json!({
        "metadata": {"annotations": {allowed: "true"}}, "spec": {"sourceVolumeMode": "Block"},
    });
    snapshot(&rig, "raw", &volume, content, json!({})).await;
    rig.claim("copy", restored("raw")).await;
    rig.bound("copy").await;
}
