//! etcd and kube-apiserver, for one test or for many, one after the other.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::keeper::{Keeper, Sweeper};
use crate::cluster::{etcd, kubectl};
use crate::control_plane::{Endpoints, Identity, apiserver_arguments, etcd_arguments, wait_ready};
use crate::debian;
use crate::error::{Doing, Result, refused};
use crate::kubernetes::Kubernetes;
use crate::pki::{Authority, Pair, Subject};
use crate::process::{capture, feed, wait_until};

const API_SERVER: &str = "kube-apiserver";
const ATTEMPTS: u32 = 3;

/// How long it may take until definitions are served.
const DEFINITIONS: Duration = Duration::from_secs(120);

/// etcd and kube-apiserver for one test, on loopback, stopped when dropped. They also end when the test's process
/// does, however that happens; one that another process has lent goes on.
///
/// Every client has a certificate and RBAC decides what it may do; see [`user`](Self::user).
pub struct ApiServer {
    pub(super) kubernetes: Kubernetes,
    pub(super) authority: Authority,
    pub(super) identity: Identity,
    pub(super) endpoints: Endpoints,
    /// Of the one attempt to start that worked: data, keys, logs.
    pub(super) place: PathBuf,
    admin: PathBuf,
    /// Files of the test.
    directory: PathBuf,
    /// Not of a server that another process runs.
    life: Option<Life>,
}

/// What ends with the server. Dropped in this order: first the processes and the directory go, then who would remove it.
struct Life {
    keeper: Keeper,
    _directory: tempfile::TempDir,
    _sweeper: Sweeper,
}

/// Where a server is that another process runs, and a directory for the files of whoever it is lent to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Address {
    /// Data, keys, logs.
    pub place: PathBuf,
    /// Port of the API server.
    pub port: u16,
    /// Ports of etcd: clients, peers.
    pub etcd: (u16, u16),
    /// Files of the test.
    pub directory: PathBuf,
}

/// Where an etcd is, and what one shows to it.
#[derive(Clone, Debug)]
pub struct Store {
    /// Of its clients.
    pub url: String,
    /// Who has signed its certificate.
    pub authority: PathBuf,
    /// A client that may do everything.
    pub client: Pair,
}

impl ApiServer {
    /// Starts both and waits until they are ready.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// The same with further arguments for the API server, such as those of an audit log.
    pub fn start_with(arguments: &[String]) -> Result<Self> {
        // A port that was free a moment ago may be gone now: another try finds others.
        let mut attempt = 1;
        loop {
            match Self::try_start(arguments) {
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    fn try_start(further: &[String]) -> Result<Self> {
        let kubernetes = Kubernetes::already_there()?;
        kubernetes.must_have(&[API_SERVER, "kubectl"])?;
        let directory = tempfile::Builder::new()
            .prefix("stowage-apiserver-")
            .tempdir()
            .doing(|| "cannot make a temporary directory".to_owned())?;
        let sweeper = Sweeper::of(directory.path())?;
        let [port, client, peer] = free_ports()?;
        let mut server = Self::at(&Address {
            place: directory.path().join("server"),
            port,
            etcd: (client, peer),
            directory: directory.path().to_owned(),
        })?;
        server.life = Some(Life {
            keeper: Keeper::new(),
            _directory: directory,
            _sweeper: sweeper,
        });
        server.run_both(further)?;
        Ok(server)
    }

    /// One that another process runs: it can be used like any other, but neither stopped nor frozen.
    pub fn at(address: &Address) -> Result<Self> {
        let endpoints = Endpoints {
            address: Ipv4Addr::LOCALHOST,
            port: address.port,
            etcd: address.etcd,
            services: "198.18.4.0/22".to_owned(),
            api_service: Ipv4Addr::new(198, 18, 4, 1),
        };
        let authority = Authority::open(&address.place.join("pki"))?;
        let admin = Subject {
            common_name: "admin",
            organization: Some("system:masters"),
            ..Subject::default()
        };
        Ok(Self {
            kubernetes: Kubernetes::already_there()?,
            admin: authority.kubeconfig("admin", &endpoints.url(), &admin)?,
            identity: Identity::ensure(&authority, &endpoints)?,
            authority,
            endpoints,
            place: address.place.clone(),
            directory: address.directory.clone(),
            life: None,
        })
    }

    /// Where it is, for another process; what that one keeps beside it goes into `directory`.
    pub fn address(&self, directory: PathBuf) -> Address {
        Address {
            place: self.place.clone(),
            port: self.endpoints.port,
            etcd: self.endpoints.etcd,
            directory,
        }
    }

    pub(super) fn keeper(&self) -> Result<&Keeper> {
        match &self.life {
            Some(life) => Ok(&life.keeper),
            None => refused(
                "this API server is lent to the test, others use it: start one of its own to stop or freeze it",
            ),
        }
    }

    fn run_both(&self, further: &[String]) -> Result<()> {
        let etcd = etcd(&self.kubernetes, &debian::tools_directory());
        let data = self.place.join("etcd");
        let arguments = etcd_arguments(&data, &self.endpoints, &self.identity);
        self.keeper()?
            .run("etcd", &etcd, &arguments, &self.log("etcd"))?;

        let help = self.kubernetes.help(API_SERVER)?;
        let mut arguments = apiserver_arguments(&self.endpoints, &self.identity, &help);
        // A loopback address may not be published as the service's endpoint, and nobody would use it.
        arguments.push("--endpoint-reconciler-type=none".to_owned());
        arguments.extend_from_slice(further);
        self.run(API_SERVER, &arguments)?;
        self.wait_ready()
    }

    /// Runs one of Kubernetes' programs beside the API server.
    pub(super) fn run(&self, name: &str, arguments: &[String]) -> Result<()> {
        let program = self.kubernetes.program(name);
        self.keeper()?
            .run(name, &program, arguments, &self.log(name))
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.place.join(format!("{name}.log"))
    }

    fn wait_ready(&self) -> Result<()> {
        let log = self.log(API_SERVER);
        wait_ready(&self.kubernetes, &self.admin, &log, || {
            self.keeper()?.check()
        })
    }

    /// The process of the API server, where this one runs it.
    pub fn process(&self) -> Result<u32> {
        self.keeper()?.id(API_SERVER)
    }

    /// Its etcd: whoever lends servers puts them back as they were.
    pub fn store(&self) -> Store {
        Store {
            url: self.endpoints.etcd_url(),
            authority: self.authority.certificate(),
            client: self.identity.store_client(),
        }
    }

    /// Kills the API server; what it has stored stays. Called twice: it is not there.
    pub fn stop(&self) -> Result<()> {
        self.keeper()?.stop(API_SERVER)
    }

    /// Starts the API server again, at the same address, with everything it had, and waits until it is ready.
    /// Called twice: it runs.
    pub fn start_again(&self) -> Result<()> {
        self.keeper()?.start_again(API_SERVER)?;
        self.wait_ready()
    }

    /// Stops the clock of the API server: connections stay, nothing is answered.
    pub fn freeze(&self) -> Result<()> {
        self.keeper()?.signal(API_SERVER, Signal::SIGSTOP)
    }

    /// Undoes [`freeze`](Self::freeze).
    pub fn thaw(&self) -> Result<()> {
        self.keeper()?.signal(API_SERVER, Signal::SIGCONT)
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

    /// Waits until the server serves every custom resource definition that it was given.
    pub fn wait_for_definitions(&self) -> Result<()> {
        // Not `kubectl wait`: it fails on a definition that has no conditions yet. So does the filter, which is asked again.
        let path = "jsonpath={range .items[*]}{.metadata.name}=\
                    {.status.conditions[?(@.type==\"Established\")].status}{\"\\n\"}{end}";
        let log = self.log(API_SERVER);
        wait_until("the definitions", DEFINITIONS, &log, || {
            let said = self.kubectl(&["get", "crd", "-o", path]);
            Ok(said.is_ok_and(|said| said.lines().all(|line| line.ends_with("=True"))))
        })
    }

    /// Files of the test that go with the server.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Ports that nobody listens at. They lie below those that the kernel gives to outgoing connections: while the API
/// server is stopped, a client that tries again and again could otherwise be given its port.
fn free_ports() -> Result<[u16; 3]> {
    let mut open = Vec::new();
    for _ in 0..100 {
        let random = RandomState::new().build_hasher().finish();
        let port = 16_000 + u16::try_from(random % 16_000).unwrap_or_default();
        // All open at once, so that they differ.
        open.extend(
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(|listener| (port, listener)),
        );
        if let [first, second, third] = open.as_slice() {
            return Ok([first.0, second.0, third.0]);
        }
    }
    refused("no free port between 16000 and 32000")
}
