//! etcd and kube-apiserver, for one test or for all of a process.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::keeper::{Keeper, tied};
use crate::cluster::{etcd, kubectl};
use crate::control_plane::{Endpoints, Identity, apiserver_arguments, etcd_arguments, wait_ready};
use crate::debian;
use crate::error::{Doing, Error, Result};
use crate::kubernetes::Kubernetes;
use crate::pki::{Authority, Subject};
use crate::process::{capture, feed};

/// etcd and kube-apiserver for one test, on loopback, stopped when dropped. They also end when the test's process
/// does, however that happens.
pub struct ApiServer {
    kubernetes: Kubernetes,
    admin: PathBuf,
    keeper: Option<Keeper>,
    directory: tempfile::TempDir,
}

impl ApiServer {
    /// Starts both and waits until they are ready.
    pub fn start() -> Result<Self> {
        let kubernetes = Kubernetes::already_there()?;
        kubernetes.must_have(&["kube-apiserver", "kubectl"])?;
        let directory = tempfile::Builder::new()
            .prefix("stowage-apiserver-")
            .tempdir()
            .doing(|| "cannot make a temporary directory".to_owned())?;
        // A port that was free a moment ago may be gone now: another try finds others.
        let mut last = None;
        for attempt in 0..3 {
            let place = directory.path().join(attempt.to_string());
            match start_both(&kubernetes, &place) {
                Ok((keeper, admin)) => {
                    return Ok(Self {
                        kubernetes,
                        admin,
                        keeper: Some(keeper),
                        directory,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::Refused("no API server".to_owned())))
    }

    /// One for all tests of a process that do not mind company: each takes a namespace of its own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ApiServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start().unwrap_or_else(|error| panic!("{error}")))
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// Runs `kubectl` as administrator.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        capture(kubectl(&self.kubernetes, &self.admin).args(arguments))
    }

    /// `kubectl` with a document on its standard input, such as `["apply", "-f", "-"]`.
    pub fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        feed(
            kubectl(&self.kubernetes, &self.admin).args(arguments),
            input,
        )
    }

    /// Files of the test that go with the server.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        // Before the directory goes.
        self.keeper.take();
    }
}

fn start_both(kubernetes: &Kubernetes, place: &Path) -> Result<(Keeper, PathBuf)> {
    let [port, client, peer] = free_ports()?;
    let endpoints = Endpoints {
        address: Ipv4Addr::LOCALHOST,
        port,
        etcd: (client, peer),
        services: "198.18.4.0/22".to_owned(),
        api_service: Ipv4Addr::new(198, 18, 4, 1),
    };
    let authority = Authority::open(&place.join("pki"))?;
    let admin = Subject {
        common_name: "admin",
        organization: Some("system:masters"),
        ..Subject::default()
    };
    let admin = authority.kubeconfig("admin", &endpoints.url(), &admin)?;
    let identity = Identity::ensure(&authority, &endpoints)?;
    let help = kubernetes.help("kube-apiserver")?;
    let mut arguments = apiserver_arguments(&endpoints, &identity, &help);
    // A loopback address may not be published as the service's endpoint, and nobody would use it.
    arguments.push("--endpoint-reconciler-type=none".to_owned());

    let etcd = etcd(kubernetes, &debian::tools_directory());
    let log = place.join("apiserver.log");
    let commands = vec![
        tied(
            &etcd,
            &etcd_arguments(&place.join("etcd"), &endpoints, &identity),
            &place.join("etcd.log"),
        )?,
        tied(&kubernetes.program("kube-apiserver"), &arguments, &log)?,
    ];
    let keeper = Keeper::start(commands);
    wait_ready(kubernetes, &admin, &log, || keeper.check(&log))?;
    Ok((keeper, admin))
}

fn free_ports() -> Result<[u16; 3]> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    // All open at once, so that they differ.
    let open = [listen(), listen(), listen()];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(open) {
        let address = listener
            .and_then(|l| l.local_addr())
            .doing(|| "cannot find a free port".to_owned())?;
        *port = address.port();
    }
    Ok(ports)
}
