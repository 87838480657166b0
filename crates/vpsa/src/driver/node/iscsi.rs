//! Sessions with arrays, through `iscsiadm` (open-iscsi).
//!
//! A node has one session with an array for all disks it has there; it is made with the first and ended with the last. The
//! secret is written into the file in which open-iscsi keeps its settings: a command line is visible to everybody.

mod record;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use secrecy::SecretString;
use stowage_host::blocking;
use stowage_host::exec::{Exec, ExecError, Invocation, Tool};
use stowage_host::mountinfo::{Mount, MountTable};
use tokio::time::{Instant, sleep};

use crate::driver::publication::Iscsi;

const ISCSIADM: Tool = Tool {
    name: "iscsiadm",
    package: "open-iscsi",
};

const PORT: u16 = 3260;

/// How long a disk may take to show up once it is attached.
const DISCOVERY: Duration = Duration::from_secs(30);

/// Exit codes of `iscsiadm`.
const SESSION_EXISTS: i32 = 15;
const NOT_FOUND: i32 = 21;
const AUTHENTICATION: i32 = 24;

/// Why a disk cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum IscsiError {
    /// The tool.
    #[error("cannot {doing} at {target}")]
    Tool {
        /// What it was to do.
        doing: &'static str,
        /// With which target.
        target: String,
        /// What it said.
        #[source]
        source: ExecError,
    },
    /// The array does not let this node in.
    #[error(
        "the VPSA refuses the login to {0}: its CHAP secret may have changed, or no volume is attached to this node's Server record"
    )]
    Authentication(String),
    /// The settings cannot be written.
    #[error("cannot write the settings of {target}: is open-iscsi's directory of records `{}`?", path.display())]
    Record {
        /// The target.
        target: String,
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The session is there, and the disk is not.
    #[error("disk {lun} of {target} did not show up within {} s of the login", DISCOVERY.as_secs())]
    NoDisk {
        /// The target.
        target: String,
        /// The number.
        lun: u64,
    },
}

/// A disk of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The target it is at.
    pub target: String,
    /// Its device.
    pub device: PathBuf,
}

/// Sessions with arrays.
pub struct Initiator {
    /// Runs `iscsiadm`.
    pub exec: Arc<dyn Exec>,
    /// Where links to disks are.
    pub by_path: PathBuf,
    /// Where open-iscsi keeps its settings.
    pub records: PathBuf,
    /// Held while a session is made, used or ended: by target.
    pub targets: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Initiator {
    /// Nobody else begins or ends a session with this target meanwhile.
    pub async fn lock(&self, target: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = Arc::clone(self.targets.lock().entry(target.to_owned()).or_default());
        lock.lock_owned().await
    }

    /// Logs in where that is needed, and returns the device of the disk. Called twice: it is there.
    pub async fn connect(
        &self,
        disk: &Iscsi,
        secret: &SecretString,
    ) -> Result<PathBuf, IscsiError> {
        let sessions = self.sessions().await?;
        for portal in &disk.portals {
            let portal = with_port(portal);
            if !sessions.contains(&(portal.clone(), disk.target.clone())) {
                self.log_in(&disk.target, &portal, &disk.chap_user, secret)
                    .await?;
            }
        }
        self.rescan(&disk.target).await?;
        let deadline = Instant::now() + DISCOVERY;
        loop {
            if let Some(device) = self.find(&disk.target, disk.lun).await {
                return Ok(device);
            }
            if Instant::now() >= deadline {
                return Err(IscsiError::NoDisk {
                    target: disk.target.clone(),
                    lun: disk.lun,
                });
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn log_in(
        &self,
        target: &str,
        portal: &str,
        user: &str,
        secret: &SecretString,
    ) -> Result<(), IscsiError> {
        let place = ["-m", "node", "-T", target, "-p", portal];
        self.run(
            "describe the session",
            target,
            &[&place[..], &["-o", "new"]].concat(),
            &[],
        )
        .await?;
        let written = record::write_chap(&self.records, target, portal, user, secret).await;
        written.map_err(|source| IscsiError::Record {
            target: target.to_owned(),
            path: self.records.clone(),
            source,
        })?;
        let login = [&place[..], &["--login"]].concat();
        self.run("log in", target, &login, &[SESSION_EXISTS]).await
    }

    /// Notices disks that are new, larger, or gone.
    pub async fn rescan(&self, target: &str) -> Result<(), IscsiError> {
        let words = ["-m", "node", "-T", target, "--rescan"];
        self.run("look for disks", target, &words, &[]).await
    }

    /// Ends the session with a target, and forgets the target. Called twice: there is none.
    pub async fn log_out(&self, target: &str) -> Result<(), IscsiError> {
        for words in [["--logout", ""], ["-o", "delete"]] {
            let place = ["-m", "node", "-T", target];
            let words = words.into_iter().filter(|word| !word.is_empty());
            let words: Vec<&str> = place.into_iter().chain(words).collect();
            self.run("log out", target, &words, &[NOT_FOUND]).await?;
        }
        Ok(())
    }

    /// Portals and targets of all sessions.
    pub async fn sessions(&self) -> Result<Vec<(String, String)>, IscsiError> {
        let invocation = Invocation::new(ISCSIADM).args(["-m", "session"]);
        let failed = |source| IscsiError::Tool {
            doing: "list sessions",
            target: "any target".to_owned(),
            source,
        };
        let output = self.exec.run(invocation).await.map_err(failed)?;
        if output.code() == Some(NOT_FOUND) {
            return Ok(Vec::new());
        }
        let output = output.checked().map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.lines().filter_map(session).collect())
    }

    /// The disks of a target that this node knows.
    pub async fn disks(&self, target: Option<&str>) -> Vec<Disk> {
        let (directory, wanted) = (self.by_path.clone(), target.map(str::to_owned));
        blocking(move || {
            let links = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let disks = links.filter_map(|link| {
                let name = link.file_name().into_string().ok()?;
                let (_, rest) = name.split_once("-iscsi-")?;
                let (target, _) = rest.rsplit_once("-lun-")?;
                let is_wanted = wanted.as_deref().is_none_or(|wanted| wanted == target);
                is_wanted.then_some(Disk {
                    target: target.to_owned(),
                    device: std::fs::canonicalize(link.path()).ok()?,
                })
            });
            disks.collect()
        })
        .await
    }

    async fn find(&self, target: &str, lun: u64) -> Option<PathBuf> {
        let (directory, end) = (self.by_path.clone(), format!("-iscsi-{target}-lun-{lun}"));
        blocking(move || {
            let links = std::fs::read_dir(directory).ok()?.flatten();
            let mut links = links.filter(|link| link.file_name().to_string_lossy().ends_with(&end));
            links.find_map(|link| std::fs::canonicalize(link.path()).ok())
        })
        .await
    }

    /// Exit codes in `fine` mean that it is so already.
    async fn run(
        &self,
        doing: &'static str,
        target: &str,
        words: &[&str],
        fine: &[i32],
    ) -> Result<(), IscsiError> {
        let failed = |source| IscsiError::Tool {
            doing,
            target: target.to_owned(),
            source,
        };
        let output = self.exec.run(Invocation::new(ISCSIADM).args(words)).await;
        let output = output.map_err(failed)?;
        match output.code() {
            Some(AUTHENTICATION) => Err(IscsiError::Authentication(target.to_owned())),
            Some(code) if fine.contains(&code) => Ok(()),
            _ => output.checked().map(drop).map_err(failed),
        }
    }
}

/// Whether something is mounted from a device, or the device itself is shown somewhere.
pub fn is_used(table: &MountTable, device: &Path) -> bool {
    table.iter().any(|mount| shows(&mount, device))
}

/// Whether a mount is that of a device's filesystem, or shows the device itself.
pub fn shows(mount: &Mount<'_>, device: &Path) -> bool {
    mount.source() == device || (is_device(mount) && mount.root().file_name() == device.file_name())
}

/// Whether a mount shows a device, and no filesystem on it.
pub fn is_device(mount: &Mount<'_>) -> bool {
    ["devtmpfs", "tmpfs"]
        .iter()
        .any(|kind| mount.kind() == *kind)
}

/// `tcp: [1] 10.0.0.1:3260,1 iqn.2011-04.com.zadara:vsa-1:1 (non-flash)`.
fn session(line: &str) -> Option<(String, String)> {
    let mut words = line.split_whitespace().skip(2);
    let (portal, _) = words.next()?.rsplit_once(',')?;
    Some((portal.to_owned(), words.next()?.to_owned()))
}

/// `10.0.0.1:3260`, `[fd00::1]:3260`.
fn with_port(address: &str) -> String {
    match address.parse::<std::net::IpAddr>() {
        Ok(ip) => std::net::SocketAddr::new(ip, PORT).to_string(),
        Err(_) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_and_sessions_are_read_whatever_the_address() {
        for (address, portal) in [
            ("10.0.0.1", "10.0.0.1:3260"),
            ("fd00::1", "[fd00::1]:3260"),
            ("10.0.0.1:860", "10.0.0.1:860"),
        ] {
            assert_eq!(with_port(address), portal);
        }
        for (line, expected) in [
            (
                "tcp: [1] 10.0.0.1:3260,1 iqn.a (non-flash)",
                Some(("10.0.0.1:3260", "iqn.a")),
            ),
            (
                "tcp: [12] [fd00::1]:3260,1 iqn.b",
                Some(("[fd00::1]:3260", "iqn.b")),
            ),
            ("iscsiadm: No active sessions.", None),
        ] {
            let expected = expected.map(|(portal, target)| (portal.to_owned(), target.to_owned()));
            assert_eq!(session(line), expected, "{line}");
        }
    }
}
