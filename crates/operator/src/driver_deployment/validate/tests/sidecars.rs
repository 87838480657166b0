use serde_json::{Value, json};

use super::{check, good, refused, set, with};
use crate::driver::valid::{ControllerRole, SecretAccess, Sidecars};

#[test]
fn images_choose_the_sidecars() {
    let images = json!({"attacherImage": "mine/csi-attacher:v4.9.0"});
    let driver = check(&with("/spec/containerImages", images.clone())).unwrap();
    let Sidecars::Upstream(upstream) = driver.sidecars else {
        panic!("{:?}", driver.sidecars)
    };
    let chosen: Vec<_> = upstream
        .controllers
        .iter()
        .map(|(role, it)| (*role, it.image.as_str()))
        .collect();
    assert_eq!(
        chosen,
        [
            (
                ControllerRole::Provisioner,
                "registry.k8s.io/sig-storage/csi-provisioner:v6.3.0"
            ),
            (ControllerRole::Attacher, "mine/csi-attacher:v4.9.0"),
        ]
    );

    let mut builtin = with("/spec/containerImages", images);
    set(&mut builtin, "/spec/sidecars/mode", json!("Builtin"));
    refused(
        &builtin,
        &[
            "spec.containerImages: Forbidden: images of the Kubernetes project's sidecars need `sidecars.mode: Upstream`",
        ],
    );
    refused(
        &with(
            "/spec/containerImages",
            json!({"provisionerImage": "quay.io/k8scsi/csi-provisioner:v0.3.1"}),
        ),
        &[
            "spec.containerImages.provisionerImage: Invalid value: \"quay.io/k8scsi/csi-provisioner:v0.3.1\": \
           implements CSI 0.x, which kubelets no longer support: use \
           registry.k8s.io/sig-storage/csi-provisioner:v6.3.0 or newer",
        ],
    );
}

#[test]
fn upstream_sidecars_are_listed() {
    let run = |names: Value| with("/spec/sidecars", json!({"mode": "Upstream", "run": names}));
    let driver = check(&run(json!(["Snapshotter", "Provisioner"]))).unwrap();
    let Sidecars::Upstream(upstream) = driver.sidecars else {
        panic!("{:?}", driver.sidecars)
    };
    let roles: Vec<_> = upstream.controllers.iter().map(|(role, _)| *role).collect();
    assert_eq!(
        roles,
        [ControllerRole::Provisioner, ControllerRole::Snapshotter]
    );
    refused(
        &run(json!(["Attacher", "Attacher", "Modifier"])),
        &[
            r#"spec.sidecars.run[1]: Duplicate value: "Attacher""#,
            r#"spec.sidecars.run[2]: Unsupported value: "Modifier": supported values: "Attacher", "Provisioner", "Resizer", "Snapshotter""#,
        ],
    );
}

#[test]
fn settings_of_the_other_kind_of_sidecars_are_refused() {
    refused(
        &with(
            "/spec/sidecars",
            json!({"run": ["Attacher"], "containers": {"attacher": {}}}),
        ),
        &[
            "spec.sidecars.run: Forbidden: needs `sidecars.mode: Upstream`: the built-in sidecar asks the driver what \
             it supports",
            r#"spec.sidecars.containers: Unsupported value: "attacher": supported values: "controller", "node""#,
        ],
    );
    refused(
        &with(
            "/spec/sidecars",
            json!({"mode": "Upstream", "nodeDeployment": true, "image": "x"}),
        ),
        &[
            "spec.sidecars.nodeDeployment: Forbidden: needs the built-in sidecar (`sidecars.mode: Builtin`)",
            "spec.sidecars.image: Forbidden: is the image of the built-in sidecar: use `containerImages`, or \
             `sidecars.mode: Builtin`",
        ],
    );
    refused(
        &with("/spec/sidecars", json!({"nodeDeployment": true})),
        &[
            "spec.driverControllerTemplate: Forbidden: there is no controller pod with `sidecars.nodeDeployment: true`: \
           remove one of the two",
        ],
    );
}

#[test]
fn secrets_are_named_unless_the_whole_cluster_is_asked_for() {
    assert_eq!(check(&good()).unwrap().secret_access, SecretAccess::Named);
    let driver = check(&with("/spec/sidecars/secretAccess", json!("Cluster"))).unwrap();
    assert_eq!(driver.secret_access, SecretAccess::Cluster);
}
