use std::path::Path;
use std::process::Command;

use devcluster::testing::{ApiServer, Rule};

/// What `kubectl` says as somebody.
fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> Result<(), String> {
    let program = devcluster::kubernetes::Kubernetes::already_there()
        .expect("Kubernetes")
        .program("kubectl");
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
    let output = command.output().expect("kubectl");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// kubectl and servers of different ages spell it differently.
fn is_forbidden(refused: &str) -> bool {
    refused.to_lowercase().contains("forbidden")
}

#[test]
fn a_user_may_do_what_its_rules_say_and_no_more() {
    let server = &ApiServer::start().unwrap();
    let read = Rule {
        groups: &[""],
        resources: &["persistentvolumeclaims"],
        verbs: &["get", "list", "watch"],
    };
    let user = server.user("reader", &[read]).unwrap();
    kubectl(&user, &["get", "persistentvolumeclaims", "-A"]).unwrap();
    let refused = kubectl(&user, &["get", "secrets", "-A"]).unwrap_err();
    assert!(refused.contains("User \"reader\" cannot list"), "{refused}");
    let create = ["create", "configmap", "mine"];
    let refused = kubectl(&user, &create).unwrap_err();
    assert!(is_forbidden(&refused), "{refused}");

    let write = Rule {
        groups: &[""],
        resources: &["configmaps"],
        verbs: &["create"],
    };
    server.allow("reader", &[read, write]).unwrap();
    kubectl(&user, &create).unwrap();
}

#[test]
fn a_service_account_has_what_its_bindings_give() {
    let server = &ApiServer::start().unwrap();
    let user = server
        .kubeconfig_of("system:serviceaccount:default:sidecar")
        .unwrap();
    let list = ["get", "persistentvolumes"];
    let refused = kubectl(&user, &list).unwrap_err();
    assert!(is_forbidden(&refused), "{refused}");
    server
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "sidecar-reads",
            "--clusterrole=system:kube-scheduler",
            "--serviceaccount=default:sidecar",
        ])
        .unwrap();
    crate::eventually("the rule", || kubectl(&user, &list).ok());
}
