//! etcd, API server, controller manager, scheduler and the image registry, all inside the hub.

mod arguments;

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Pid;

pub use self::arguments::{
    GATES, apiserver as apiserver_arguments, controller_manager as controller_manager_arguments,
    etcd as etcd_arguments, scheduler as scheduler_arguments,
};
use crate::cluster::kubectl;
use crate::error::Result;
use crate::kubernetes::Kubernetes;
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

    /// Of etcd's clients.
    pub fn etcd_url(&self) -> String {
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

    /// As whom the API server reaches etcd.
    pub fn store_client(&self) -> Pair {
        self.etcd.clone()
    }
}

#[cfg(test)]
impl Identity {
    /// One file for everything.
    fn example(path: &Path) -> Self {
        let pair = Pair {
            certificate: path.to_owned(),
            key: path.to_owned(),
        };
        Self {
            authority: path.to_owned(),
            token_keys: TokenKeys {
                private: path.to_owned(),
                public: path.to_owned(),
            },
            server: pair.clone(),
            etcd: pair.clone(),
            kubelet_client: pair,
        }
    }
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
            &arguments::etcd(&data, &self.endpoints, &identity),
            inside,
        )?;

        let name = "kube-apiserver";
        let help = self.kubernetes.help(name)?;
        let apiserver = self.daemon(name);
        let arguments = arguments::apiserver(&self.endpoints, &identity, &help);
        apiserver.start(&self.kubernetes.program(name), &arguments, inside)?;
        wait_ready(self.kubernetes, admin, apiserver.log(), || {
            etcd.must_run()?;
            apiserver.must_run().map(drop)
        })?;

        let name = "kube-controller-manager";
        let help = self.kubernetes.help(name)?;
        let kubeconfig = self.kubeconfig("system:kube-controller-manager", name)?;
        let arguments =
            arguments::controller_manager(&kubeconfig, &identity, &self.endpoints.services, &help);
        self.daemon(name)
            .start(&self.kubernetes.program(name), &arguments, inside)?;

        let name = "kube-scheduler";
        let help = self.kubernetes.help(name)?;
        let kubeconfig = self.kubeconfig("system:kube-scheduler", name)?;
        let arguments = arguments::scheduler(&kubeconfig, &help);
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
    let address = server_of(admin);
    wait_until("the start of the API server", limit, log, || {
        alive()?;
        // Each question is a process: none before somebody listens.
        if address.is_some_and(|it| TcpStream::connect(it).is_err()) {
            return Ok(false);
        }
        let mut ask = kubectl(kubernetes, admin);
        Ok(capture(ask.args(["get", "--raw", "/readyz", "--request-timeout=2s"])).is_ok())
    })
}

/// Where the server of one of our kubeconfigs is, which are JSON.
fn server_of(kubeconfig: &Path) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(kubeconfig).ok()?;
    let config: serde_json::Value = serde_json::from_str(&text).ok()?;
    let url = config["clusters"][0]["cluster"]["server"].as_str()?;
    url.strip_prefix("https://")?.parse().ok()
}
