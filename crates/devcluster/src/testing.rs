//! For tests: an API server of one's own in about three seconds, and namespaces on a cluster that is up.

use std::env;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::cluster::{Cluster, etcd, kubectl};
use crate::control_plane::{Endpoints, Identity, apiserver_arguments, etcd_arguments, wait_ready};
use crate::debian;
use crate::error::{Doing, Error, Result, refused};
use crate::kubernetes::{Kubernetes, kubectl_program};
use crate::pki::{Authority, Subject};
use crate::process::{append, capture, feed, wait_until};

/// Where a test that needs a whole cluster finds its name; set by `./x test`.
pub const CLUSTER_VARIABLE: &str = "STOWAGE_TEST_CLUSTER";
/// A cluster of the user's own, instead.
pub const KUBECONFIG_VARIABLE: &str = "STOWAGE_KUBECONFIG";

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

/// Owns the two processes on a thread of its own. They are tied to the life of that thread, not to the thread of
/// whichever test happened to start them.
struct Keeper {
    stop: mpsc::Sender<()>,
    died: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Keeper {
    fn start(commands: Vec<Command>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let died = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&died);
        let thread = thread::spawn(move || keep(commands, &stopped, &seen));
        Self {
            stop,
            died,
            thread: Some(thread),
        }
    }

    fn check(&self, log: &Path) -> Result<()> {
        if self.died.load(Ordering::Relaxed) {
            return Err(Error::DaemonDied {
                name: "an API server or its etcd".to_owned(),
                last_words: String::new(),
                log: log.to_owned(),
            });
        }
        Ok(())
    }
}

fn keep(commands: Vec<Command>, stopped: &mpsc::Receiver<()>, died: &AtomicBool) {
    let spawned: Vec<_> = commands
        .into_iter()
        .map(|mut command| command.spawn())
        .collect();
    let missing = spawned.iter().any(std::result::Result::is_err);
    let mut children: Vec<Child> = spawned.into_iter().flatten().collect();
    died.store(missing, Ordering::Relaxed);
    while stopped.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if children.iter_mut().any(ended) {
            died.store(true, Ordering::Relaxed);
        }
    }
    for child in children.iter_mut().rev() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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

/// A command that is killed when the thread that started it ends.
fn tied(program: &Path, arguments: &[String], log: &Path) -> Result<Command> {
    let out = append(log)?;
    let err = out
        .try_clone()
        .doing(|| "cannot copy a descriptor".to_owned())?;
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .args(arguments);
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    Ok(command)
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

/// The whole cluster that end-to-end tests run on: the one `./x test` made, or the user's own.
pub struct TestCluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    dev: Option<Cluster>,
}

impl TestCluster {
    /// Finds it.
    pub fn get() -> Result<Self> {
        if let Some(own) = env::var_os(KUBECONFIG_VARIABLE).filter(|v| !v.is_empty()) {
            return Ok(Self {
                kubectl: kubectl_program(),
                kubeconfig: PathBuf::from(own),
                dev: None,
            });
        }
        let Ok(name) = env::var(CLUSTER_VARIABLE) else {
            return refused("this test needs a cluster: run it with `./x test`");
        };
        let cluster = Cluster::named(&name)?;
        let kubeconfig = cluster.kubeconfig();
        Ok(Self {
            kubectl: Kubernetes::already_there()?.program("kubectl"),
            kubeconfig,
            dev: Some(cluster),
        })
    }

    /// The dev cluster; a cluster of the user's own has no nodes that may be stopped.
    pub fn dev(&self) -> Result<&Cluster> {
        match &self.dev {
            Some(cluster) => Ok(cluster),
            None => refused("this test stops nodes, so it needs a dev cluster"),
        }
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs `kubectl` as administrator.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        capture(self.command().args(arguments))
    }

    /// `kubectl apply` of a document.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        feed(self.command().args(["apply", "-f", "-"]), manifest)
    }

    /// A namespace of its own, deleted when dropped.
    pub fn namespace(&self, prefix: &str) -> Result<Namespace<'_>> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{}-{count}", std::process::id());
        self.kubectl(&["create", "namespace", &name])?;
        let namespace = Namespace {
            cluster: self,
            name,
        };
        // Pods are refused until the account they run as is there.
        wait_until(
            "the ServiceAccount of a namespace",
            Duration::from_secs(30),
            Path::new("-"),
            || {
                Ok(namespace
                    .kubectl(&["get", "serviceaccount", "default"])
                    .is_ok())
            },
        )?;
        Ok(namespace)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }
}

/// A namespace that lasts as long as the test.
pub struct Namespace<'a> {
    cluster: &'a TestCluster,
    name: String,
}

impl Namespace<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `kubectl` in it.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        capture(
            self.cluster
                .command()
                .args(["--namespace", &self.name])
                .args(arguments),
        )
    }

    /// Applies a document to it.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        feed(
            self.cluster
                .command()
                .args(["--namespace", &self.name, "apply", "-f", "-"]),
            manifest,
        )
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        let _ = self
            .cluster
            .kubectl(&["delete", "namespace", &self.name, "--wait=false"]);
    }
}
