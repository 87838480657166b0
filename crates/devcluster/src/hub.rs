//! The hub: a network namespace that holds the bridge and the control plane.
//!
//! Because everything of a cluster lives in namespaces, no port of the machine is taken, no firewall rule is
//! written, nothing can leave the machine, and ending one process ends all of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{Pid, getpid};

use crate::error::Result;
use crate::network::{Network, forget_orphans_quickly, ip_batch};
use crate::process::{Daemon, Namespaces, capture, wait_until};

/// The hub of one cluster.
pub struct Hub {
    init: Daemon,
    catatonit: PathBuf,
    network: Network,
}

impl Hub {
    /// The hub whose logs go to `directory`.
    pub fn new(directory: &Path, catatonit: PathBuf, network: Network) -> Self {
        Self {
            init: Daemon::new(directory, "catatonit"),
            catatonit,
            network,
        }
    }

    /// Its first process, if it runs and its network is whole.
    pub fn pid(&self) -> Option<Pid> {
        let pid = self.init.pid()?;
        let links = ["machine", "br0"];
        let whole = Namespaces::network(pid)
            .enter(|| capture(std::process::Command::new("ip").args(["-o", "link", "show", "up"])))
            .is_ok_and(|shown| {
                links
                    .iter()
                    .all(|link| shown.contains(&format!(": {link}")))
            });
        whole.then_some(pid)
    }

    /// Starts it unless it runs. A hub that was left half-made is replaced. Returns its first process.
    pub fn ensure(&self) -> Result<Pid> {
        if let Some(pid) = self.pid() {
            return Ok(pid);
        }
        self.stop()?;
        self.network.check_free()?;
        let namespaces = ["--net", "--pid", "--fork", "--kill-child", "--"];
        let mut arguments: Vec<String> = namespaces.iter().map(|&a| a.to_owned()).collect();
        arguments.extend([self.catatonit.display().to_string(), "-P".to_owned()]);
        self.init
            .start(Path::new("/usr/bin/unshare"), &arguments, None)?;
        wait_until(
            "the start of the hub",
            Duration::from_secs(10),
            self.init.log(),
            || Ok(self.init.pid().is_some()),
        )?;
        let pid = self.init.must_run()?;
        forget_orphans_quickly(Namespaces::network(pid))?;
        let inside = Some(Namespaces::network(pid));
        ip_batch(&self.network.hub_batch(), inside)?;
        ip_batch(&self.network.machine_link_batch(getpid()), inside)?;
        ip_batch(&self.network.machine_batch(), None)?;
        Ok(pid)
    }

    /// Ends it and everything in it, and removes the way to it.
    pub fn stop(&self) -> Result<()> {
        self.init.kill()?;
        self.network.remove_link()
    }
}
