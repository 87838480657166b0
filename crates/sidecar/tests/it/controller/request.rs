//! What the driver is asked for, and what is written down about the volume.

use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode::{
    MultiNodeMultiWriter, MultiNodeReaderOnly, SingleNodeMultiWriter, SingleNodeWriter,
};
use stowage_csi::proto::csi::volume_capability::{AccessType, BlockVolume};
use stowage_csi::proto::csi::{CreateVolumeRequest, DeleteVolumeRequest, VolumeCapability};
use stowage_sidecar::controller::run;
use stowage_stage::Rig;

const PREFIX: &str = "csi.storage.k8s.io";

fn only(rig: &Rig) -> CreateVolumeRequest {
    let mut all = rig.creations();
    assert_eq!(all.len(), 1, "CreateVolume is called once");
    all.remove(0)
}

fn modes(request: &CreateVolumeRequest) -> Vec<i32> {
    let mode = |one: &VolumeCapability| one.access_mode.unwrap().mode;
    request.volume_capabilities.iter().map(mode).collect()
}

fn as_json(volume: &PersistentVolume) -> Value {
    serde_json::to_value(volume).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_written_as_upstream_writes_it() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(json!({
        "parameters": {"tier": "gold", format!("{PREFIX}/fstype"): "xfs"},
        "mountOptions": ["noatime", "discard"],
    }))
    .await;
    let claim = rig.claim("data", json!({})).await;
    let uid = claim.metadata.uid.unwrap();
    let volume = as_json(&rig.bound("data").await);

    let request = only(&rig);
    assert_eq!(request.name, format!("pvc-{uid}"));
    let range = request.capacity_range.unwrap();
    assert_eq!((range.required_bytes, range.limit_bytes), (1 << 30, 0));
    assert_eq!(request.parameters, [("tier".into(), "gold".into())].into());
    assert!(request.secrets.is_empty());
    assert_eq!(request.accessibility_requirements, None);
    let Some(AccessType::Mount(mount)) = &request.volume_capabilities[0].access_type else {
        panic!("{request:?}");
    };
    assert_eq!(mount.fs_type, "xfs");
    assert_eq!(mount.mount_flags, ["noatime", "discard"]);

    let made = rig.driver.volume(&request.name).unwrap();
    let metadata = &volume["metadata"];
    assert_eq!(metadata["name"], json!(format!("pvc-{uid}")));
    assert_eq!(
        metadata["annotations"],
        json!({
            "pv.kubernetes.io/provisioned-by": rig.name,
            "volume.kubernetes.io/provisioner-deletion-secret-name": "",
            "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
        })
    );
    let finalizers = metadata["finalizers"].as_array().unwrap();
    let own = json!("external-provisioner.volume.kubernetes.io/finalizer");
    assert!(finalizers.contains(&own), "{finalizers:?}");
    let spec = &volume["spec"];
    assert_eq!(spec["capacity"], json!({"storage": "1Gi"}));
    assert_eq!(spec["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(spec["mountOptions"], json!(["noatime", "discard"]));
    assert_eq!(spec["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(spec["storageClassName"], json!(rig.name));
    assert_eq!(spec["volumeMode"], "Filesystem");
    assert_eq!(spec["nodeAffinity"], Value::Null);
    assert_eq!(spec["claimRef"]["uid"], json!(uid));
    assert_eq!(spec["claimRef"]["name"], "data");
    assert_eq!(spec["claimRef"]["namespace"], json!(rig.namespace));
    assert_eq!(spec["claimRef"]["kind"], "PersistentVolumeClaim");
    assert_eq!(spec["claimRef"]["apiVersion"], "v1");
    let csi = &spec["csi"];
    assert_eq!(csi["driver"], json!(rig.name));
    assert_eq!(csi["volumeHandle"], json!(made.id));
    assert_eq!(csi["fsType"], "xfs");
    assert_eq!(csi["volumeAttributes"]["made-for"], json!(request.name));
    let identity = csi["volumeAttributes"]["storage.kubernetes.io/csiProvisionerIdentity"].as_str();
    let identity: Vec<_> = identity.unwrap().splitn(3, '-').collect();
    assert!(identity[0].parse::<u64>().unwrap() > 1_600_000_000_000);
    assert!(identity[1].parse::<u32>().unwrap() < 10_000);
    assert_eq!(identity[2], rig.name);
    let mut fields: Vec<_> = csi.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(
        fields,
        ["driver", "fsType", "volumeAttributes", "volumeHandle"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn success_is_an_event_and_a_metric() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let volume = rig.bound("data").await.metadata.name.unwrap();
    let message = rig.event("data", "ProvisioningSucceeded", "").await;
    assert_eq!(message, format!("Successfully provisioned volume {volume}"));
    let labels = format!("{{class=\"{}\",source=\"\"}} 1", rig.name);
    let total = format!("controller_persistentvolumeclaim_provision_total{labels}");
    assert_eq!(
        sidecar.metric("controller_persistentvolumeclaim_provision_total"),
        [total]
    );
    sidecar
        .shows(&[
            "controller_persistentvolumeclaim_provision_duration_seconds_count",
            &rig.name,
        ])
        .await;
    rig.delete_claim("data").await;
    rig.nothing_left().await;
    sidecar
        .shows(&["controller_persistentvolume_delete_total", " 1"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_volumes_follow_the_flags() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(
        run,
        &["--volume-name-prefix=disk", "--volume-name-uuid-length=12"],
    );
    rig.class(json!({})).await;
    let claim = rig.claim("data", json!({})).await;
    let uid = claim.metadata.uid.unwrap().replace('-', "");
    let volume = rig.bound("data").await;
    assert_eq!(
        volume.metadata.name.unwrap(),
        format!("disk-{}", &uid[..12])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn drivers_that_want_to_know_are_told_the_names() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &["--extra-create-metadata"]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    rig.bound("data").await;
    let request = only(&rig);
    let expected = [
        (format!("{PREFIX}/pvc/name"), "data".to_owned()),
        (format!("{PREFIX}/pvc/namespace"), rig.namespace.clone()),
        (format!("{PREFIX}/pv/name"), request.name.clone()),
    ];
    assert_eq!(request.parameters, expected.into());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_secret_is_found_by_its_template_and_used_again_to_delete() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    let pair = |whose: &str, name: &str| {
        json!({
            format!("{PREFIX}/{whose}secret-name"): name,
            format!("{PREFIX}/{whose}secret-namespace"): "${pvc.namespace}",
        })
    };
    let mut parameters = json!({});
    for (whose, name) in [
        ("provisioner-", "login-${pvc.annotations['team']}"),
        ("node-stage-", "stage-${pvc.name}"),
        ("controller-modify-", "modify-${pv.name}"),
        ("", "common"),
    ] {
        let pair = pair(whose, name);
        parameters
            .as_object_mut()
            .unwrap()
            .extend(pair.as_object().unwrap().clone());
    }
    rig.class(json!({ "parameters": parameters })).await;
    rig.secret("login-blue", "password", "s3cret").await;
    rig.claim(
        "data",
        json!({"metadata": {"annotations": {"team": "blue"}}}),
    )
    .await;
    let volume = as_json(&rig.bound("data").await);
    let request = only(&rig);
    assert_eq!(
        request.secrets,
        [("password".into(), "s3cret".into())].into()
    );
    assert!(request.parameters.is_empty());

    let reference = |name: &str| json!({"name": name, "namespace": rig.namespace});
    let csi = &volume["spec"]["csi"];
    assert_eq!(csi["nodeStageSecretRef"], reference("stage-data"));
    for common in [
        "controllerPublishSecretRef",
        "nodePublishSecretRef",
        "controllerExpandSecretRef",
    ] {
        assert_eq!(csi[common], reference("common"), "{common}");
    }
    let annotations = &volume["metadata"]["annotations"];
    for (key, value) in [
        ("provisioner-deletion-secret-name", "login-blue"),
        ("provisioner-deletion-secret-namespace", &rig.namespace),
        (
            "controller-modify-secret-name",
            &format!("modify-{}", request.name),
        ),
        ("controller-modify-secret-namespace", &rig.namespace),
    ] {
        assert_eq!(
            annotations[format!("volume.kubernetes.io/{key}")],
            json!(value),
            "{key}"
        );
    }
    rig.delete_claim("data").await;
    rig.nothing_left().await;
    let deletion: DeleteVolumeRequest = rig.driver.last_request().unwrap();
    assert_eq!(
        deletion.secrets,
        [("password".into(), "s3cret".into())].into()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raw_device_has_no_filesystem() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &["--default-fstype=ext4"]);
    rig.class(json!({})).await;
    rig.claim("raw", json!({"spec": {"volumeMode": "Block"}}))
        .await;
    let volume = as_json(&rig.bound("raw").await);
    let request = only(&rig);
    let kind = request.volume_capabilities[0].access_type.clone();
    assert_eq!(kind, Some(AccessType::Block(BlockVolume {})));
    assert_eq!(volume["spec"]["volumeMode"], "Block");
    assert_eq!(volume["spec"]["csi"]["fsType"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_without_a_filesystem_gets_the_default_one() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &["--default-fstype=ext4"]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    let volume = as_json(&rig.bound("data").await);
    assert_eq!(volume["spec"]["csi"]["fsType"], "ext4");
    let Some(AccessType::Mount(mount)) = only(&rig).volume_capabilities[0].access_type.clone()
    else {
        panic!("no mount");
    };
    assert_eq!(mount.fs_type, "ext4");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_access_mode_is_a_capability() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &["--controller-publish-readonly"]);
    rig.class(json!({})).await;
    let all = json!(["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce"]);
    rig.claim("data", json!({"spec": {"accessModes": all}}))
        .await;
    let volume = as_json(&rig.bound("data").await);
    let expected = [
        MultiNodeMultiWriter,
        MultiNodeReaderOnly,
        SingleNodeMultiWriter,
    ];
    assert_eq!(modes(&only(&rig)), expected.map(i32::from));
    assert_eq!(volume["spec"]["accessModes"], all);
    assert_eq!(volume["spec"]["csi"]["readOnly"], Value::Null);

    rig.claim(
        "readers",
        json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
    )
    .await;
    let volume = as_json(&rig.bound("readers").await);
    assert_eq!(volume["spec"]["csi"]["readOnly"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn drivers_with_one_mode_for_one_node_hear_that_one() {
    let rig = Rig::new(|mut profile| {
        profile.topology = false;
        profile.without(Can::SingleNodeMultiWriter)
    })
    .await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    rig.claim("data", json!({})).await;
    rig.bound("data").await;
    assert_eq!(modes(&only(&rig)), [i32::from(SingleNodeWriter)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_are_rounded_up_to_bytes_and_the_drivers_answer_counts() {
    let rig = Rig::plain().await;
    let _sidecar = rig.sidecar(run, &[]);
    rig.class(json!({})).await;
    let size = |text: &str| json!({"spec": {"resources": {"requests": {"storage": text}}}});
    rig.claim("odd", size("1500000000500m")).await;
    let volume = as_json(&rig.bound("odd").await);
    assert_eq!(
        only(&rig).capacity_range.unwrap().required_bytes,
        1_500_000_001
    );
    assert_eq!(volume["spec"]["capacity"]["storage"], "1500000001");
    // The driver makes nothing smaller than 1 MiB.
    rig.claim("small", size("1k")).await;
    let volume = as_json(&rig.bound("small").await);
    assert_eq!(volume["spec"]["capacity"]["storage"], "1Mi");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_retains_leaves_volume_and_object() {
    let rig = Rig::plain().await;
    let sidecar = rig.sidecar(run, &[]);
    rig.class(json!({"reclaimPolicy": "Retain"})).await;
    rig.claim("data", json!({})).await;
    let name = rig.bound("data").await.metadata.name.unwrap();
    rig.delete_claim("data").await;
    rig.claim_is_gone("data").await;
    assert!(sidecar.runs().await);
    let left = as_json(&rig.volumes().get(&name).await.unwrap());
    assert_eq!(left["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(rig.driver.calls("DeleteVolume"), 0);
    assert_eq!(
        left["metadata"]["finalizers"],
        json!(["kubernetes.io/pv-protection"])
    );
}
