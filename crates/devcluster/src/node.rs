//! A node: one init process with its own files, network and processes; containerd, kubelet and kube-proxy in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::unistd::Pid;

use crate::error::{Doing, Result};
use crate::kubernetes::{Help, Kubernetes};
use crate::network::{Network, ip_batch};
use crate::node_config::{self, KUBERNETES, STATE, TOOLS};
use crate::pki::{Authority, Subject};
use crate::process::{Daemon, Namespaces, capture, wait_until};
use crate::{cgroups, control_plane, places};

const INIT_SCRIPT: &str = include_str!("node_init.sh");

/// Private directories of a node; the init binds them over the machine's.
const PRIVATE: &[&str] = &["lib", "log", "tmp"];

/// One node of a cluster.
pub struct Node<'a> {
    index: usize,
    name: String,
    directory: PathBuf,
    cgroup: String,
    network: Network,
    kubernetes: &'a Kubernetes,
    tools: &'a Path,
    taint: Option<String>,
}

/// `node-a`, `node-b`, ...
pub fn name(index: usize) -> String {
    let letter = u8::try_from(index).map_or('?', |index| char::from(b'a' + index));
    format!("node-{letter}")
}

/// The beginning of the names of a cluster's cgroups.
pub fn cgroup_prefix(cluster: &str) -> String {
    format!("stowage.{cluster}.")
}

impl<'a> Node<'a> {
    /// The `index`-th node of `cluster`, whose files are below `cluster_directory`.
    pub fn new(
        index: usize,
        cluster: &str,
        cluster_directory: &Path,
        network: Network,
        kubernetes: &'a Kubernetes,
        tools: &'a Path,
    ) -> Self {
        let name = name(index);
        Self {
            index,
            directory: cluster_directory.join("nodes").join(&name),
            cgroup: format!("{}{name}", cgroup_prefix(cluster)),
            name,
            network,
            kubernetes,
            tools,
            taint: None,
        }
    }

    /// The same, with a taint if the cluster does not know it yet.
    #[must_use]
    pub fn registering_with(self, taint: &str) -> Self {
        Self {
            taint: Some(taint.to_owned()),
            ..self
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster's addresses.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its daemons, in the order of their start.
    pub fn daemons(&self) -> [Daemon; 3] {
        ["containerd", "kubelet", "kube-proxy"].map(|program| self.daemon(program))
    }

    /// Its first process, if it runs.
    pub fn pid(&self) -> Option<Pid> {
        self.init().pid()
    }

    /// Starts what does not run. Called twice: finds everything running.
    pub fn ensure(&self, hub: Pid, authority: &Authority, server: &str) -> Result<()> {
        let init = match self.pid() {
            Some(init) => init,
            None => self.start_init()?,
        };
        self.connect(hub, init)?;
        let help = self.kubernetes.help("kubelet")?;
        self.write_configuration(authority, server, &help)?;
        let inside = Some(Namespaces::whole(init));
        let containerd = [format!("--config={STATE}/containerd.toml")];
        self.daemon("containerd")
            .start(&in_node(TOOLS, "containerd"), &containerd, inside)?;
        self.wait_for_containerd(init)?;
        let kubelet = self.kubelet_arguments(&help);
        self.daemon("kubelet")
            .start(&in_node(KUBERNETES, "kubelet"), &kubelet, inside)?;
        let proxy = [
            format!("--config={STATE}/kube-proxy.json"),
            format!("--hostname-override={}", self.name),
        ];
        self.daemon("kube-proxy")
            .start(&in_node(KUBERNETES, "kube-proxy"), &proxy, inside)?;
        Ok(())
    }

    /// Power off: everything of the node ends at once, its disk stays.
    pub fn stop(&self) -> Result<()> {
        self.init().kill()?;
        cgroups::remove(&self.cgroup)
    }

    /// Pulls the cable: everything goes on running and nobody can reach it. [`Node::ensure`] plugs it in.
    pub fn cut(&self, hub: Pid) -> Result<()> {
        let batch = format!("link set {} down\n", self.name);
        ip_batch(&batch, Some(Namespaces::network(hub)))
    }

    /// Loads an image archive into the node's containerd under the names it carries.
    pub fn load_image(&self, archive: &Path) -> Result<()> {
        let Some(init) = self.pid() else {
            return Ok(());
        };
        let file = fs::File::open(archive)
            .doing(|| format!("cannot open image `{}`", archive.display()))?;
        Namespaces::whole(init).enter(|| {
            let mut import = Command::new(in_node(TOOLS, "ctr"));
            import
                .args(["-n", "k8s.io", "images", "import", "-"])
                .stdin(file);
            crate::process::capture_with_stdin(&mut import).map(drop)
        })
    }

    fn daemon(&self, program: &str) -> Daemon {
        Daemon::new(&self.directory, program)
    }

    fn init(&self) -> Daemon {
        self.daemon("catatonit")
    }

    fn start_init(&self) -> Result<Pid> {
        for private in PRIVATE {
            places::make(&self.directory.join(private))?;
        }
        open_to_all(&self.directory.join("tmp"))?;
        // What a killed node left in its cgroups costs its successor half a minute.
        cgroups::remove(&self.cgroup)?;
        cgroups::make(&self.cgroup)?;
        let options = [
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--propagation",
            "private",
            "--",
            "/bin/sh",
            "-c",
            INIT_SCRIPT,
            "node-init",
        ];
        let mut arguments: Vec<String> = options.iter().map(|&o| o.to_owned()).collect();
        for path in [&self.directory, self.kubernetes.directory(), self.tools] {
            arguments.push(path.display().to_string());
        }
        let init = self.init();
        init.start(Path::new("/usr/bin/unshare"), &arguments, None)?;
        let what = format!("the start of {}", self.name);
        wait_until(&what, Duration::from_secs(10), init.log(), || {
            Ok(init.pid().is_some())
        })?;
        init.must_run()
    }

    /// A kubelet that finds no container runtime when it starts may give up at once: newer ones do.
    fn wait_for_containerd(&self, init: Pid) -> Result<()> {
        let containerd = self.daemon("containerd");
        let what = format!("the start of containerd on {}", self.name);
        wait_until(&what, Duration::from_secs(30), containerd.log(), || {
            containerd.must_run()?;
            let mut version = Command::new(in_node(TOOLS, "ctr"));
            let answer = Namespaces::whole(init).enter(|| capture(version.arg("version")));
            Ok(answer.is_ok())
        })
    }

    /// Its cable to the hub's bridge; laid anew if the hub was replaced.
    fn connect(&self, hub: Pid, init: Pid) -> Result<()> {
        let (in_hub, in_node) = (Namespaces::network(hub), Namespaces::network(init));
        let link_in = |namespace: Namespaces, link: &str| {
            namespace
                .enter(|| capture(Command::new("ip").args(["-o", "link", "show", "dev", link])))
        };
        if link_in(in_node, "eth0").is_err() {
            ip_batch(
                &self.network.cable_batch(self.index, &self.name, init),
                Some(in_hub),
            )?;
            ip_batch(&self.network.node_batch(self.index), Some(in_node))?;
        } else {
            ip_batch(&format!("link set {} up\n", self.name), Some(in_hub))?;
        }
        Ok(())
    }

    fn write_configuration(&self, authority: &Authority, server: &str, help: &Help) -> Result<()> {
        let user = format!("system:node:{}", self.name);
        let client = Subject {
            common_name: &user,
            organization: Some("system:nodes"),
            ..Subject::default()
        };
        let serving = Subject {
            common_name: &user,
            names: vec![self.name.clone()],
            addresses: vec![self.network.node(self.index)],
            ..Subject::default()
        };
        let proxy = Subject {
            common_name: "system:kube-proxy",
            ..Subject::default()
        };
        let kubelet = authority.kubeconfig(&self.name, server, &client)?;
        let kube_proxy = authority.kubeconfig(&format!("{}-proxy", self.name), server, &proxy)?;
        let pair = authority.issue(&format!("{}-serving", self.name), &serving)?;
        for (from, to) in [
            (kubelet, "kubelet.kubeconfig"),
            (kube_proxy, "kube-proxy.kubeconfig"),
            (pair.certificate, "kubelet.crt"),
            (pair.key, "kubelet.key"),
            (authority.certificate(), "ca.crt"),
        ] {
            let content = fs::read(&from).doing(|| format!("cannot read `{}`", from.display()))?;
            places::write(&self.directory.join(to), content)?;
        }
        let cgroup_v1 = !Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let known = control_plane::GATES.iter().copied();
        let gates: Vec<&str> = known.filter(|gate| help.can_switch_on(gate)).collect();
        let kubelet = node_config::kubelet(self.kubernetes, &self.cgroup, cgroup_v1, &gates);
        for (file, content) in [
            ("containerd.toml", node_config::containerd()),
            (
                "registries/_default/hosts.toml",
                node_config::registries(self.network),
            ),
            (
                "cni/10-pods.conflist",
                node_config::cni(self.network, self.index),
            ),
            ("kubelet.json", kubelet),
            ("kube-proxy.json", node_config::kube_proxy()),
        ] {
            let path = self.directory.join(file);
            places::make(path.parent().unwrap_or(&self.directory))?;
            places::write(&path, content)?;
        }
        Ok(())
    }

    fn kubelet_arguments(&self, help: &Help) -> Vec<String> {
        let mut arguments = vec![
            format!("--config={STATE}/kubelet.json"),
            format!("--kubeconfig={STATE}/kubelet.kubeconfig"),
            format!("--hostname-override={}", self.name),
            format!("--node-ip={}", self.network.node(self.index)),
            "--container-runtime-endpoint=unix:///run/containerd/containerd.sock".to_owned(),
        ];
        if help.has_flag("container-runtime") {
            arguments.push("--container-runtime=remote".to_owned());
        }
        if let Some(taint) = &self.taint {
            arguments.push(format!("--register-with-taints={taint}"));
        }
        arguments
    }
}

fn in_node(directory: &str, program: &str) -> PathBuf {
    Path::new(directory).join(program)
}

/// `/tmp` as everywhere: all may write, nobody may remove what is another's.
fn open_to_all(directory: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o1777))
        .doing(|| format!("cannot set the mode of `{}`", directory.display()))
}
