use super::*;

/// Whether pods need privileges, with these fields beside a container.
fn of_pod(fields: &Value) -> bool {
    let mut spec = json!({"containers": [{"name": "driver"}]});
    as_object(&mut spec).extend(fields.as_object().unwrap().clone());
    PodTemplate::parse(&json!({ "spec": spec }))
        .unwrap()
        .needs_privileges()
}

/// The same, with such a container beside another.
fn of_container(container: &Value) -> bool {
    let other = json!({"name": "other"});
    let late = of_pod(&json!({"containers": [other, container]}));
    assert_eq!(late, of_pod(&json!({"initContainers": [container]})));
    late
}

#[test]
fn pods_need_privileges_for_what_no_pod_has_by_itself() {
    for fields in [
        json!({"hostNetwork": true}),
        json!({"hostPID": true}),
        json!({"hostIPC": true}),
        json!({"volumes": [{"name": "v", "hostPath": {"path": "/dev"}}]}),
        json!({"securityContext": {"runAsUser": 0}}),
    ] {
        assert!(of_pod(&fields), "{fields}");
    }
    for fields in [
        json!({}),
        json!({"hostNetwork": false}),
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        json!({"securityContext": {"runAsUser": 1000, "runAsNonRoot": true}}),
    ] {
        assert!(!of_pod(&fields), "{fields}");
    }
}

#[test]
fn containers_need_privileges_for_what_no_container_has_by_itself() {
    for container in [
        json!({"securityContext": {"privileged": true}}),
        json!({"securityContext": {"runAsUser": 0}}),
        json!({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
        json!({"ports": [{"containerPort": 1}, {"containerPort": 2, "hostPort": 2}]}),
    ] {
        assert!(of_container(&container), "{container}");
    }
    for container in [
        json!({}),
        json!({"securityContext": {"privileged": false, "runAsUser": 1}}),
        json!({"securityContext": {"capabilities": {"add": [], "drop": ["ALL"]}}}),
        json!({"ports": [{"containerPort": 1, "hostPort": 0}]}),
    ] {
        assert!(!of_container(&container), "{container}");
    }
}
