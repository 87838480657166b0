mod additions;
mod classes;
mod sidecars;
mod templates;
mod variants;

use serde_json::{Value, json};
use stowage_api::driver_deployment::CSIDriverDeployment;

use super::*;

const PORTS: Ports = Ports::starting_at(Ports::FIRST);

fn template() -> Value {
    json!({"spec": {"containers": [{
        "name": "csi-driver", "image": "driver:v1", "securityContext": {"privileged": true},
    }]}})
}

fn good() -> Value {
    json!({
        "apiVersion": "csidriver.storage.openshift.io/v1alpha1",
        "kind": "CSIDriverDeployment",
        "metadata": {"name": "hostpath", "namespace": "default", "uid": "u-1"},
        "spec": {
            "driverName": "csi-hostpath",
            "driverPerNodeTemplate": template(),
            "driverControllerTemplate": template(),
            "driverSocket": "/run/csi/csi.sock",
            "nodeUpdateStrategy": "Rolling",
        },
    })
}

fn check_with(instance: &Value, config: &OperatorConfig) -> Result<ValidDriver, Vec<String>> {
    let instance: CSIDriverDeployment = serde_json::from_value(instance.clone()).unwrap();
    let errors = |errors: Vec<FieldError>| errors.iter().map(ToString::to_string).collect();
    validate(&instance, config, PORTS).map_err(errors)
}

fn check(instance: &Value) -> Result<ValidDriver, Vec<String>> {
    check_with(instance, &OperatorConfig::default())
}

/// The good instance with one field set; `path` is a JSON pointer whose parents exist or are objects.
fn with(path: &str, value: Value) -> Value {
    let mut instance = good();
    set(&mut instance, path, value);
    instance
}

fn set(instance: &mut Value, path: &str, value: Value) {
    let mut place = instance;
    for part in path.trim_start_matches('/').split('/') {
        place = match part.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[part],
        };
    }
    *place = value;
}

#[track_caller]
fn refused(instance: &Value, expected: &[&str]) {
    let errors = check(instance).expect_err("this instance is wrong");
    assert_eq!(errors, expected);
}

#[test]
fn a_good_instance_is_valid() {
    let driver = check(&good()).unwrap();
    assert_eq!(driver.names.cluster_role, "csidriverdeployment-u-1");
    assert_eq!(driver.node_workloads[0].name, "hostpath-node");
    assert_eq!(driver.controller.unwrap().name, "hostpath-controller");
    assert_eq!(
        driver.paths.socket_on_node(),
        "/var/lib/kubelet/plugins/csi-hostpath/csi.sock"
    );
    assert_eq!(driver.probe, None);
}

#[test]
fn what_is_optional_may_be_missing_or_null() {
    for field in [
        "driverControllerTemplate",
        "managementState",
        "probePeriodSeconds",
        "probeTimeoutSeconds",
        "storageClassTemplates",
        "containerImages",
        "sidecars",
        "csiDriver",
        "volumeSnapshotClassTemplates",
        "controllerReplicas",
        "kubeletRootDir",
    ] {
        check(&with(&format!("/spec/{field}"), Value::Null)).unwrap();
    }
    check(&with("/spec/managementState", json!(""))).unwrap();
}

#[test]
fn driver_names_have_a_length_and_a_form() {
    let form = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                character (e.g. 'org.acme.csi-hostpath', regex used for validation is \
                '^[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?$')";
    for name in ["", "-a", "a-", "a/b", "a b", "é"] {
        let expected = format!("spec.driverName: Invalid value: \"{name}\": {form}");
        refused(&with("/spec/driverName", json!(name)), &[&expected]);
    }
    let long = "a".repeat(64);
    refused(
        &with("/spec/driverName", json!(long)),
        &[
            "spec.driverName: Too long: must have at most 63 characters",
            &format!("spec.driverName: Invalid value: \"{long}\": {form}"),
        ],
    );
    for name in [
        "a",
        "org.acme.csi-hostpath",
        "Csi_Hostpath",
        &"a".repeat(63),
    ] {
        let mut instance = with("/spec/driverName", json!(name));
        set(&mut instance, "/spec/driverSocket", json!("/run/csi/s"));
        check(&instance).unwrap();
    }
}

#[test]
fn a_name_that_no_object_can_have_costs_the_csidriver_only() {
    let driver = check(&with("/spec/driverName", json!("Csi_Hostpath"))).unwrap();
    let CsiDriver::NameUnfit { reason } = driver.csi_driver else {
        panic!("{:?}", driver.csi_driver)
    };
    assert!(reason.contains("`Csi_Hostpath`"), "{reason}");
    assert!(
        driver
            .paths
            .plugin_directory
            .ends_with("/plugins/Csi-Hostpath")
    );
}

#[test]
fn sockets_have_a_place_of_their_own_and_a_length() {
    let too_long = format!("/run/{}/csi.sock", "d".repeat(95));
    for (socket, detail) in [
        ("", "must be non-empty"),
        ("run/csi.sock", "must be an absolute path"),
        (
            "/csi.sock",
            "must not be in `/`: the whole directory of the socket is mounted, use one such as /run/csi",
        ),
        (
            "/run/../csi.sock",
            "must be a path without `.`, `..`, empty parts and `:`",
        ),
        (
            "/run/csi/",
            "must be a path without `.`, `..`, empty parts and `:`",
        ),
        (
            "/run:1/csi.sock",
            "must be a path without `.`, `..`, empty parts and `:`",
        ),
        (
            "/var/lib/kubelet/csi.sock",
            "must not be in the kubelet's directory, which is mounted as well: use another directory, such as /run/csi",
        ),
    ] {
        let expected = format!("spec.driverSocket: Invalid value: \"{socket}\": {detail}");
        refused(&with("/spec/driverSocket", json!(socket)), &[&expected]);
    }
    let errors = check(&with("/spec/driverSocket", json!(too_long))).unwrap_err();
    assert!(
        errors[0]
            .ends_with("must have at most 107 bytes: the path of a UNIX socket cannot be longer")
    );
    let longest = format!("/run/{}/csi.sock", "d".repeat(93));
    assert_eq!(longest.len(), 107);
    check(&with("/spec/driverSocket", json!(longest))).unwrap();
}

#[test]
fn sockets_must_fit_where_the_kubelet_sees_them() {
    let mut instance = with("/spec/driverName", json!("d".repeat(63)));
    set(
        &mut instance,
        "/spec/driverSocket",
        json!("/run/csi/endpoint-of-driver.sock"),
    );
    let errors = check(&instance).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("on nodes it is `/var/lib/kubelet/plugins/ddd"),
        "{errors:?}"
    );

    let mut instance = good();
    set(
        &mut instance,
        "/spec/kubeletRootDir",
        json!(format!("/{}", "k".repeat(80))),
    );
    let errors = check(&instance).unwrap_err();
    assert!(
        errors.iter().any(|it| it.starts_with("spec.driverName: ")),
        "{errors:?}"
    );
}

#[test]
fn kubelet_directories_are_absolute() {
    for root in ["var/lib", "/", "/var/../lib", "/a:b"] {
        let errors = check(&with("/spec/kubeletRootDir", json!(root))).unwrap_err();
        assert_eq!(
            errors,
            [format!(
                "spec.kubeletRootDir: Invalid value: \"{root}\": must be an absolute path without `.`, `..` and `:`, \
                 and not `/`"
            )]
        );
    }
    let driver = check(&with("/spec/kubeletRootDir", json!("/var/snap/kubelet/"))).unwrap();
    assert_eq!(
        driver.paths.plugin_directory,
        "/var/snap/kubelet/plugins/csi-hostpath"
    );
}

#[test]
fn derived_names_are_never_cut() {
    let name = "n".repeat(53);
    let too_long = with("/metadata/name", json!(name));
    refused(
        &too_long,
        &[
            "metadata.name: Too long: must have at most 52 characters: pods are labelled with the name and `-controller`",
        ],
    );
    let mut node_only = too_long;
    set(
        &mut node_only,
        "/spec/driverControllerTemplate",
        Value::Null,
    );
    check(&node_only).unwrap();
    set(&mut node_only, "/metadata/name", json!("n".repeat(59)));
    refused(
        &node_only,
        &[
            "metadata.name: Too long: must have at most 58 characters: pods are labelled with the name and `-node`",
        ],
    );
}

#[test]
fn words_come_from_fixed_sets() {
    for (path, value, supported) in [
        (
            "nodeUpdateStrategy",
            "Sometimes",
            r#""Draining", "OnDelete", "Rolling""#,
        ),
        (
            "nodeUpdateStrategy",
            "",
            r#""Draining", "OnDelete", "Rolling""#,
        ),
        ("managementState", "Removed", r#""Managed", "Unmanaged""#),
        ("sidecars/mode", "Go", r#""Builtin", "Upstream""#),
        ("sidecars/secretAccess", "None", r#""Cluster", "Named""#),
        ("csiDriver/updatePolicy", "x", r#""Recreate", "Report""#),
    ] {
        let field = path.replace('/', ".");
        let expected =
            format!("spec.{field}: Unsupported value: \"{value}\": supported values: {supported}");
        refused(&with(&format!("/spec/{path}"), json!(value)), &[&expected]);
    }
    check(&with("/spec/nodeUpdateStrategy", json!("OnDelete"))).unwrap();
}

#[test]
fn seconds_are_positive() {
    for field in ["probePeriodSeconds", "probeTimeoutSeconds"] {
        for wrong in [0, -1] {
            let expected =
                format!("spec.{field}: Invalid value: {wrong}: must be positive integer number");
            refused(&with(&format!("/spec/{field}"), json!(wrong)), &[&expected]);
        }
    }
    let probe = check(&with("/spec/probePeriodSeconds", json!(60)))
        .unwrap()
        .probe;
    assert_eq!(
        probe,
        Some(Probe {
            period: 60,
            timeout: 30
        })
    );
}

#[test]
fn a_startup_taint_is_a_key_that_the_drivers_pods_tolerate() {
    for wrong in ["", "no key", "/x", "UPPER.example/x", "a/b/c"] {
        let errors = check(&with("/spec/startupTaint", json!(wrong))).unwrap_err();
        let expected = "spec.startupTaint: Invalid value: ";
        assert!(errors[0].starts_with(expected), "{wrong}: {errors:?}");
    }
    let mut instance = with("/spec/startupTaint", json!("startup.example/d"));
    let tolerated = |instance: &Value| {
        let driver = check(instance).unwrap();
        driver.node_workloads[0].placement.tolerations.clone()
    };
    assert_eq!(tolerated(&instance), [json!({"operator": "Exists"})]);
    set(
        &mut instance,
        "/spec/driverPerNodeTemplate/spec/tolerations",
        json!([]),
    );
    let own = json!({"key": "startup.example/d", "operator": "Exists"});
    assert_eq!(tolerated(&instance), [own]);
}

#[test]
fn replicas_are_positive() {
    refused(
        &with("/spec/controllerReplicas", json!(0)),
        &["spec.controllerReplicas: Invalid value: 0: must be between 1 and 65535"],
    );
    let driver = check(&with("/spec/controllerReplicas", json!(2))).unwrap();
    assert_eq!(driver.controller.unwrap().replicas, 2);
}

#[test]
fn unknown_fields_are_found_everywhere() {
    let mut instance = good();
    for path in [
        "/spec/colour",
        "/spec/sidecars/colour",
        "/spec/csiDriver/colour",
        "/spec/containerImages/colour",
    ] {
        set(&mut instance, path, json!("red"));
    }
    set(
        &mut instance,
        "/spec/sidecars/containers",
        json!({"node": {"colour": 1}}),
    );
    set(
        &mut instance,
        "/spec/volumeSnapshotClassTemplates",
        json!([{"metadata": {"name": "s"}, "colour": 1}]),
    );
    for (field, value) in [
        (
            "nodeVariants",
            json!([{
                "name": "v", "nodeLabel": {"key": "k", "value": "v", "colour": 1}, "template": template(), "colour": 1,
            }]),
        ),
        (
            "volumeGroupSnapshotClassTemplates",
            json!([{"metadata": {"name": "g"}, "colour": 1}]),
        ),
        (
            "volumeAttributesClassTemplates",
            json!([{"metadata": {"name": "a"}, "parameters": {"a": "b"}, "colour": 1}]),
        ),
        (
            "extraRules",
            json!({"colour": 1, "controller": {"colour": 1}, "node": {"colour": 1}}),
        ),
        ("restartOn", json!({"colour": 1})),
        (
            "metrics",
            json!({"colour": 1, "serviceMonitor": {"colour": 1}}),
        ),
        (
            "driverSecrets",
            json!([{"secretName": "s", "mountPath": "/s", "colour": 1}]),
        ),
    ] {
        set(&mut instance, &format!("/spec/{field}"), value);
    }
    refused(
        &instance,
        &[
            "spec.containerImages.colour: Forbidden: unknown field",
            "spec.sidecars.colour: Forbidden: unknown field",
            "spec.sidecars.containers[node].colour: Forbidden: unknown field",
            "spec.nodeVariants[0].colour: Forbidden: unknown field",
            "spec.nodeVariants[0].nodeLabel.colour: Forbidden: unknown field",
            "spec.volumeSnapshotClassTemplates[0].colour: Forbidden: unknown field",
            "spec.volumeGroupSnapshotClassTemplates[0].colour: Forbidden: unknown field",
            "spec.volumeAttributesClassTemplates[0].colour: Forbidden: unknown field",
            "spec.extraRules.colour: Forbidden: unknown field",
            "spec.extraRules.controller.colour: Forbidden: unknown field",
            "spec.extraRules.node.colour: Forbidden: unknown field",
            "spec.restartOn.colour: Forbidden: unknown field",
            "spec.metrics.colour: Forbidden: unknown field",
            "spec.metrics.serviceMonitor.colour: Forbidden: unknown field",
            "spec.csiDriver.colour: Forbidden: unknown field",
            "spec.driverSecrets[0].colour: Forbidden: unknown field",
            "spec.colour: Forbidden: unknown field",
        ],
    );
}

#[test]
fn every_mistake_is_listed_at_once() {
    let mut instance = good();
    set(&mut instance, "/spec/driverName", json!("-"));
    set(&mut instance, "/spec/driverPerNodeTemplate", json!({}));
    set(&mut instance, "/spec/driverControllerTemplate", json!({}));
    set(&mut instance, "/spec/driverSocket", json!(""));
    set(&mut instance, "/spec/nodeUpdateStrategy", json!("x"));
    set(&mut instance, "/spec/managementState", json!("x"));
    set(&mut instance, "/spec/probePeriodSeconds", json!(0));
    let errors = check(&instance).unwrap_err();
    let fields: Vec<_> = errors
        .iter()
        .map(|error| error.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.driverName",
            "spec.driverPerNodeTemplate",
            "spec.driverControllerTemplate",
            "spec.driverSocket",
            "spec.nodeUpdateStrategy",
            "spec.managementState",
            "spec.probePeriodSeconds",
        ]
    );
}
