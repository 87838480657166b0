//! etcd, API server, controller manager, scheduler and the image registry, all inside the hub.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Pid;

use crate::cluster::kubectl;
use crate::error::Result;
use crate::kubernetes::{Help, Kubernetes};
use crate::network::Network;
use crate::pki::{Authority, Pair, Subject, TokenKeys};
use crate::process::{Daemon, Namespaces, capture, wait_until};

/// What runs, in the order of its start.
pub const DAEMONS: &[&str] = &[
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

/// Features that later versions have by default and that our tests use.
pub const GATES: &[&str] = &["CSIStorageCapacity", "GenericEphemeralVolume"];

/// Where a server and its etcd listen, and with which certificates.
pub struct Endpoints {
    /// Address clients use.
    pub address: std::net::Ipv4Addr,
    /// Port of the API server.
    pub port: u16,
    /// Ports of etcd, on loopback: clients, peers.
    pub etcd: (u16, u16),
    /// Range of services.
    pub services: String,
    /// First address of it.
    pub api_service: std::net::Ipv4Addr,
}

impl Endpoints {
    /// Those of a cluster: inside the hub every port is free.
    pub fn of_cluster(network: Network) -> Self {
        Self {
            address: network.hub(),
            port: 6443,
            etcd: (2379, 2380),
            services: network.services(),
            api_service: network.api_service(),
        }
    }

    /// What clients are configured with.
    pub fn url(&self) -> String {
        format!("https://{}:{}", self.address, self.port)
    }

    fn etcd_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.etcd.0)
    }
}

/// Certificates of the control plane.
pub struct Identity {
    authority: PathBuf,
    token_keys: TokenKeys,
    server: Pair,
    etcd: Pair,
    kubelet_client: Pair,
}

impl Identity {
    /// Issues what is missing.
    pub fn ensure(authority: &Authority, endpoints: &Endpoints) -> Result<Self> {
        let names = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ];
        let mut names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
        names.push("kubernetes.default.svc.cluster.local".to_owned());
        let loopback = std::net::Ipv4Addr::LOCALHOST;
        let server = Subject {
            common_name: "kube-apiserver",
            names,
            addresses: vec![endpoints.address, endpoints.api_service, loopback],
            ..Subject::default()
        };
        let etcd = Subject {
            common_name: "etcd",
            names: vec!["localhost".to_owned()],
            addresses: vec![loopback],
            ..Subject::default()
        };
        let kubelet_client = Subject {
            common_name: "kube-apiserver-kubelet-client",
            organization: Some("system:masters"),
            ..Subject::default()
        };
        Ok(Self {
            authority: authority.certificate(),
            token_keys: authority.token_keys()?,
            server: authority.issue("apiserver", &server)?,
            etcd: authority.issue("etcd", &etcd)?,
            kubelet_client: authority.issue("apiserver-kubelet-client", &kubelet_client)?,
        })
    }
}

/// Arguments of etcd. Without fsync: a dev cluster is remade, not recovered.
pub fn etcd_arguments(data: &Path, endpoints: &Endpoints, identity: &Identity) -> Vec<String> {
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
pub fn apiserver_arguments(endpoints: &Endpoints, identity: &Identity, help: &Help) -> Vec<String> {
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
fn controller_manager_arguments(
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
    ]);
    arguments.extend(gates(help));
    arguments
}

fn scheduler_arguments(kubeconfig: &Path, help: &Help) -> Vec<String> {
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

/// The daemons of a cluster's control plane.
pub struct ControlPlane<'a> {
    /// Directory of the cluster's control plane: data and logs.
    pub directory: PathBuf,
    /// The Kubernetes binaries.
    pub kubernetes: &'a Kubernetes,
    /// etcd.
    pub etcd: PathBuf,
    /// Where to listen.
    pub endpoints: Endpoints,
    /// The cluster's authority.
    pub authority: &'a Authority,
}

impl ControlPlane<'_> {
    /// Starts what does not run, inside the hub, and waits until the API server is ready.
    /// Called twice: finds everything running.
    pub fn ensure(&self, hub: Pid, admin: &Path) -> Result<()> {
        let inside = Some(Namespaces::network_and_processes(hub));
        let identity = Identity::ensure(self.authority, &self.endpoints)?;
        let data = self.directory.join("etcd");
        let etcd = self.daemon("etcd");
        etcd.start(
            &self.etcd,
            &etcd_arguments(&data, &self.endpoints, &identity),
            inside,
        )?;

        let name = "kube-apiserver";
        let help = self.kubernetes.help(name)?;
        let apiserver = self.daemon(name);
        let arguments = apiserver_arguments(&self.endpoints, &identity, &help);
        apiserver.start(&self.kubernetes.program(name), &arguments, inside)?;
        wait_ready(self.kubernetes, admin, apiserver.log(), || {
            etcd.must_run()?;
            apiserver.must_run().map(drop)
        })?;

        let name = "kube-controller-manager";
        let help = self.kubernetes.help(name)?;
        let kubeconfig = self.kubeconfig("system:kube-controller-manager", name)?;
        let arguments =
            controller_manager_arguments(&kubeconfig, &identity, &self.endpoints.services, &help);
        self.daemon(name)
            .start(&self.kubernetes.program(name), &arguments, inside)?;

        let name = "kube-scheduler";
        let help = self.kubernetes.help(name)?;
        let kubeconfig = self.kubeconfig("system:kube-scheduler", name)?;
        let arguments = scheduler_arguments(&kubeconfig, &help);
        self.daemon(name)
            .start(&self.kubernetes.program(name), &arguments, inside)?;
        Ok(())
    }

    fn daemon(&self, name: &str) -> Daemon {
        Daemon::new(&self.directory, name)
    }

    fn kubeconfig(&self, user: &str, file: &str) -> Result<PathBuf> {
        let subject = Subject {
            common_name: user,
            ..Subject::default()
        };
        self.authority
            .kubeconfig(file, &self.endpoints.url(), &subject)
    }
}

/// Waits until the API server says it is ready; `alive` ends the wait early if a process it needs has died.
pub fn wait_ready(
    kubernetes: &Kubernetes,
    admin: &Path,
    log: &Path,
    alive: impl Fn() -> Result<()>,
) -> Result<()> {
    let limit = Duration::from_secs(90);
    wait_until("the start of the API server", limit, log, || {
        alive()?;
        let mut ask = kubectl(kubernetes, admin);
        Ok(capture(ask.args(["get", "--raw", "/readyz", "--request-timeout=2s"])).is_ok())
    })
}
