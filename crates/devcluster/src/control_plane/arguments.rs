//! The arguments of the programs of the control plane, as pure functions.

use std::path::{Path, PathBuf};

use super::{Endpoints, Identity};
use crate::kubernetes::Help;

/// Features that later versions have by default and that our tests use.
pub const GATES: &[&str] = &["CSIStorageCapacity", "GenericEphemeralVolume"];

/// Arguments of etcd. Without fsync: a dev cluster is remade, not recovered.
pub fn etcd(data: &Path, endpoints: &Endpoints, identity: &Identity) -> Vec<String> {
    let peers = format!("https://127.0.0.1:{}", endpoints.etcd.1);
    let (certificate, key) = (
        identity.etcd.certificate.display(),
        identity.etcd.key.display(),
    );
    let authority = identity.authority.display();
    vec![
        "--name=main".to_owned(),
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls={}", endpoints.etcd_url()),
        format!("--advertise-client-urls={}", endpoints.etcd_url()),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=main={peers}"),
        format!("--cert-file={certificate}"),
        format!("--key-file={key}"),
        format!("--trusted-ca-file={authority}"),
        "--client-cert-auth=true".to_owned(),
        format!("--peer-cert-file={certificate}"),
        format!("--peer-key-file={key}"),
        format!("--peer-trusted-ca-file={authority}"),
        "--peer-client-cert-auth=true".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
        // Room for the objects of a benchmark.
        "--quota-backend-bytes=4294967296".to_owned(),
    ]
}

/// Arguments of the API server.
pub fn apiserver(endpoints: &Endpoints, identity: &Identity, help: &Help) -> Vec<String> {
    let path = |p: &PathBuf| p.display().to_string();
    let mut arguments = vec![
        format!("--bind-address={}", endpoints.address),
        format!("--advertise-address={}", endpoints.address),
        format!("--secure-port={}", endpoints.port),
        format!("--etcd-servers={}", endpoints.etcd_url()),
        format!("--etcd-cafile={}", path(&identity.authority)),
        format!("--etcd-certfile={}", path(&identity.etcd.certificate)),
        format!("--etcd-keyfile={}", path(&identity.etcd.key)),
        format!("--tls-cert-file={}", path(&identity.server.certificate)),
        format!("--tls-private-key-file={}", path(&identity.server.key)),
        format!("--client-ca-file={}", path(&identity.authority)),
        format!(
            "--kubelet-certificate-authority={}",
            path(&identity.authority)
        ),
        format!(
            "--kubelet-client-certificate={}",
            path(&identity.kubelet_client.certificate)
        ),
        format!(
            "--kubelet-client-key={}",
            path(&identity.kubelet_client.key)
        ),
        // Otherwise `logs` and `exec` look node names up in a DNS that is not there.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        format!(
            "--service-account-key-file={}",
            path(&identity.token_keys.public)
        ),
        format!(
            "--service-account-signing-key-file={}",
            path(&identity.token_keys.private)
        ),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-cluster-ip-range={}", endpoints.services),
        "--allow-privileged=true".to_owned(),
        // Webhooks are called at their pods: the control plane has no kube-proxy of its own.
        "--enable-aggregator-routing=true".to_owned(),
        "--runtime-config=storage.k8s.io/v1alpha1=true".to_owned(),
    ];
    if help.has_flag("insecure-port") {
        arguments.push("--insecure-port=0".to_owned());
    }
    arguments.extend(gates(help));
    arguments
}

/// Arguments of the controller manager. Its client limits are raised: with the defaults of 20 and 30 requests
/// per second they would be what every benchmark measures.
pub fn controller_manager(
    kubeconfig: &Path,
    identity: &Identity,
    services: &str,
    help: &Help,
) -> Vec<String> {
    let not_in_a_cloud = if help.mentions("node-ipam-controller") {
        "-node-ipam-controller,-cloud-node-lifecycle-controller,-service-lb-controller,-node-route-controller"
    } else {
        "-nodeipam,-cloud-node-lifecycle,-service,-route"
    };
    let mut arguments = leaderless(kubeconfig, help);
    arguments.extend([
        format!("--controllers=*,{not_in_a_cloud}"),
        "--use-service-account-credentials=true".to_owned(),
        format!("--root-ca-file={}", identity.authority.display()),
        format!(
            "--service-account-private-key-file={}",
            identity.token_keys.private.display()
        ),
        format!("--service-cluster-ip-range={services}"),
        "--node-monitor-period=1s".to_owned(),
        "--node-monitor-grace-period=10s".to_owned(),
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
        // A deleted claim's volume is noticed at once, not after 15 seconds.
        "--pvclaimbinder-sync-period=2s".to_owned(),
        // So is a VolumeAttachment that somebody else deleted, as for a node that is lost: not after a minute.
        "--attach-detach-reconcile-sync-period=5s".to_owned(),
    ]);
    arguments.extend(gates(help));
    arguments
}

/// Arguments of the scheduler.
pub fn scheduler(kubeconfig: &Path, help: &Help) -> Vec<String> {
    let mut arguments = leaderless(kubeconfig, help);
    arguments.extend([
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
    ]);
    arguments.extend(gates(help));
    arguments
}

/// What controller manager and scheduler have in common: one of each, nothing served but on loopback.
fn leaderless(kubeconfig: &Path, help: &Help) -> Vec<String> {
    let kubeconfig = kubeconfig.display();
    let mut arguments = vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--leader-elect=false".to_owned(),
    ];
    if help.has_flag("port") {
        arguments.push("--port=0".to_owned());
    }
    arguments
}

fn gates(help: &Help) -> Option<String> {
    let on: Vec<String> = GATES
        .iter()
        .filter(|gate| help.can_switch_on(gate))
        .map(|gate| format!("{gate}=true"))
        .collect();
    (!on.is_empty()).then(|| format!("--feature-gates={}", on.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "--port int  --insecure-port int  --controllers strings: nodeipam, route\n\
                       CSIStorageCapacity=true|false (ALPHA - default=false)\n";
    const NEW: &str = "--secure-port int  --controllers strings: node-ipam-controller, node-route-controller\n\
                       CSIStorageCapacity=true|false (GA - default=true)\n";

    fn arguments(help: &str) -> (String, String) {
        let help = Help::from(help);
        let path = PathBuf::from("/pki/x");
        let identity = Identity::example(&path);
        let manager = controller_manager(&path, &identity, "198.18.4.0/22", &help).join(" ");
        (manager, scheduler(&path, &help).join(" "))
    }

    #[test]
    fn old_programs_are_told_what_they_know() {
        let (manager, scheduler) = arguments(OLD);
        assert!(manager.contains("--port=0") && scheduler.contains("--port=0"));
        assert!(
            manager.contains("*,-nodeipam,-cloud-node-lifecycle,-service,-route"),
            "{manager}"
        );
        assert!(manager.contains("--feature-gates=CSIStorageCapacity=true"));
    }

    #[test]
    fn new_programs_are_not_told_what_they_refuse() {
        let (manager, scheduler) = arguments(NEW);
        assert!(!manager.contains("--port=0") && !scheduler.contains("--port=0"));
        assert!(
            manager.contains("-node-ipam-controller,-cloud-node-lifecycle-controller"),
            "{manager}"
        );
        assert!(!manager.contains("--feature-gates") && !scheduler.contains("--feature-gates"));
    }
}
