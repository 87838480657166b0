use serde_json::{Value, json};
use stowage_api::driver_deployment::CSIDriverDeployment;

use super::{check, check_with, good, refused, set, with};
use crate::config::OperatorConfig;
use crate::driver::{Facts, PodFacts, SecretNames, build};
use crate::driver_deployment::validate::needs_own_ports;
use crate::served::Versions;

#[test]
fn templates_need_a_container() {
    for path in ["driverPerNodeTemplate", "driverControllerTemplate"] {
        for (empty, shown) in [
            (json!({}), "{}"),
            (json!({"spec": {}}), r#"{"spec":{}}"#),
            (
                json!({"spec": {"containers": []}}),
                r#"{"spec":{"containers":[]}}"#,
            ),
        ] {
            let expected = format!("spec.{path}: Invalid value: {shown}: must be non-empty");
            refused(&with(&format!("/spec/{path}"), empty), &[&expected]);
        }
    }
}

#[test]
fn templates_that_cannot_be_edited_are_refused_at_the_place() {
    let mut instance = good();
    set(
        &mut instance,
        "/spec/driverPerNodeTemplate/metadata",
        json!([]),
    );
    set(
        &mut instance,
        "/spec/driverPerNodeTemplate/spec/volumes",
        json!({}),
    );
    set(
        &mut instance,
        "/spec/driverControllerTemplate/spec/containers/0/ports",
        json!(7),
    );
    refused(
        &instance,
        &[
            "spec.driverPerNodeTemplate.metadata: Invalid value: []: must be an object",
            "spec.driverPerNodeTemplate.spec.volumes: Invalid value: {}: must be a list",
            "spec.driverControllerTemplate.spec.containers[0].ports: Invalid value: 7: must be a list",
        ],
    );
    refused(
        &with(
            "/spec/driverControllerTemplate/spec/containers",
            json!(["driver"]),
        ),
        &[
            r#"spec.driverControllerTemplate.spec.containers: Invalid value: ["driver"]: must be a list of objects"#,
        ],
    );
}

#[test]
fn names_of_ours_are_not_for_templates() {
    let mut instance = with("/spec/probePeriodSeconds", json!(60));
    let node = "/spec/driverPerNodeTemplate/spec";
    set(
        &mut instance,
        &format!("{node}/volumes"),
        json!([{"name": "mine"}, {"name": "kubelet-root"}]),
    );
    set(
        &mut instance,
        &format!("{node}/containers/0/volumeMounts"),
        json!([{"mountPath": "/run/csi/"}, {"mountPath": "/var/lib/kubelet"}, {"mountPath": "/var/lib/kubelet/pods"}]),
    );
    set(
        &mut instance,
        &format!("{node}/containers/0/ports"),
        json!([{"name": "csi-probe", "containerPort": 1}, {"containerPort": 9808}, {"containerPort": 9809}]),
    );
    set(
        &mut instance,
        &format!("{node}/initContainers"),
        json!([{"name": "csi-attacher"}]),
    );
    let controller = "/spec/driverControllerTemplate/spec";
    set(
        &mut instance,
        &format!("{controller}/containers/0/ports"),
        json!([{"containerPort": 9810}]),
    );
    refused(
        &instance,
        &[
            r#"spec.driverPerNodeTemplate.spec.volumes[1].name: Invalid value: "kubelet-root": is used by the operator: choose another name"#,
            r#"spec.driverPerNodeTemplate.spec.containers[0].ports[0].name: Invalid value: "csi-probe": is used by the operator: choose another name"#,
            "spec.driverPerNodeTemplate.spec.containers[0].ports[1].containerPort: Invalid value: 9808: is used by the \
             sidecar: choose another port",
            "spec.driverPerNodeTemplate.spec.initContainers[0].name: Invalid value: \"csi-attacher\": is used by the \
             operator, which runs the sidecars itself: remove the container, or choose another name for it",
            "spec.driverPerNodeTemplate.spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/run/csi/\": is \
             mounted by the operator: remove the mount",
            "spec.driverPerNodeTemplate.spec.containers[0].volumeMounts[1].mountPath: Invalid value: \
             \"/var/lib/kubelet\": is mounted by the operator: remove the mount",
            "spec.driverControllerTemplate.spec.containers[0].ports[0].containerPort: Invalid value: 9810: is used by \
             the sidecar: choose another port",
        ],
    );
}

#[test]
fn the_driver_on_a_node_is_privileged() {
    let path = "/spec/driverPerNodeTemplate/spec/containers/0/securityContext";
    refused(
        &with(path, json!({})),
        &[
            "spec.driverPerNodeTemplate.spec.containers[0].securityContext.privileged: Invalid value: null: must be \
           true: mounts of the driver are propagated to the node, which only privileged containers are allowed to do",
        ],
    );
    check(&with(
        "/spec/driverControllerTemplate/spec/containers/0/securityContext",
        json!({}),
    ))
    .unwrap();
}

#[test]
fn infrastructure_nodes_are_merged_and_a_clash_is_an_error() {
    let config = OperatorConfig::parse("infrastructureNodeSelector: {role: infra}").unwrap();
    let path = "/spec/driverControllerTemplate/spec/nodeSelector";
    let driver = check_with(
        &with(path, json!({"disk": "ssd", "role": "infra"})),
        &config,
    )
    .unwrap();
    let placement = driver.controller.unwrap().placement;
    assert_eq!(placement.node_selector["role"], "infra");
    let errors = check_with(&with(path, json!({"role": "storage"})), &config).unwrap_err();
    assert_eq!(
        errors,
        [
            "spec.driverControllerTemplate.spec.nodeSelector[role]: Invalid value: \"storage\": the operator's \
          configuration selects nodes with `infra` for controllers: remove the label from one of the two"
        ]
    );
}

#[test]
fn drivers_on_the_network_of_the_node_need_ports_of_their_own() {
    let own = |instance: Value| {
        let instance: CSIDriverDeployment = serde_json::from_value(instance).unwrap();
        needs_own_ports(&instance.spec)
    };
    assert!(!own(good()));
    assert!(own(with(
        "/spec/driverPerNodeTemplate/spec/hostNetwork",
        json!(true)
    )));
    assert!(own(with(
        "/spec/driverControllerTemplate/spec/hostNetwork",
        json!(true)
    )));
}

#[test]
fn pods_run_on_linux_node_pods_everywhere_and_controllers_where_the_site_has_them() {
    let text = "{infrastructureNodeSelector: {role: infra}, infrastructureTolerations: [{key: infra, operator: Exists}]}";
    let config = OperatorConfig::parse(text).unwrap();
    let driver = check_with(&good(), &config).unwrap();
    let controller = driver.controller.unwrap().placement;
    assert_eq!(controller.node_selector.len(), 2);
    assert_eq!(
        controller.tolerations,
        [json!({"key": "infra", "operator": "Exists"})]
    );
    let nodes = &driver.node_workloads[0].placement;
    assert_eq!(nodes.node_selector["kubernetes.io/os"], "linux");
    assert_eq!(nodes.tolerations, [json!({"operator": "Exists"})]);
    let narrowed = with("/spec/driverPerNodeTemplate/spec/tolerations", json!([]));
    let driver = check_with(&narrowed, &config).unwrap();
    let nodes = &driver.node_workloads[0].placement;
    assert!(nodes.tolerations.is_empty(), "{nodes:?}");
}

#[test]
fn secrets_of_the_driver_are_in_both_pods() {
    let secret =
        json!({"secretName": "legacy", "mountPath": "/legacy-volume-access/", "optional": true});
    let driver = check(&with("/spec/driverSecrets", json!([secret]))).unwrap();
    let facts = Facts {
        secrets: SecretNames::default(),
        versions: Versions::LEAST,
        has_security_constraints: false,
        pods: PodFacts::default(),
    };
    let objects = build(&driver, &facts);
    let pods: Vec<_> = objects
        .iter()
        .filter_map(|object| object.body.get("spec")?.pointer("/template/spec"))
        .collect();
    assert_eq!(pods.len(), 2);
    for pod in pods {
        let volume = json!({"name": "driver-secret-0", "secret": {"secretName": "legacy", "optional": true}});
        assert!(
            pod["volumes"].as_array().unwrap().contains(&volume),
            "{pod}"
        );
        let mount = json!({"name": "driver-secret-0", "mountPath": "/legacy-volume-access", "readOnly": true});
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        assert!(mounts.contains(&mount), "{pod}");
    }
    let wrong = json!([
        {"secretName": "", "mountPath": "/a"},
        {"secretName": "b", "mountPath": "b"},
        {"secretName": "c", "mountPath": "/a/"},
        {"secretName": "d", "mountPath": "/d", "mode": 1},
    ]);
    let errors = check(&with("/spec/driverSecrets", wrong)).unwrap_err();
    for path in [
        "[0].secretName",
        "[1].mountPath",
        "[2].mountPath",
        "[3].mode",
    ] {
        let path = format!("spec.driverSecrets{path}");
        assert!(
            errors.iter().any(|error| error.starts_with(&path)),
            "{path}: {errors:?}"
        );
    }
    assert_eq!(errors.len(), 4, "{errors:?}");
}
