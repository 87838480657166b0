//! A node that uses an array through the stand-ins for its tools, and leaves nothing behind.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};
use stowage_sim::nfs::share::Network;
use stowage_sim::vpsa::host::initiator::Printed;
use stowage_sim::vpsa::host::tools::{MountError, iscsiadm, mount_nfs};
use stowage_sim::vpsa::{Host, HostOptions};
use tempfile::TempDir;

use crate::vpsa::rig::own_address;

pub struct Node {
    // In this order: unmounted first, removed last.
    mounts: Vec<PathBuf>,
    pub host: Option<Host>,
    pub ip: IpAddr,
    pub directory: TempDir,
    options: HostOptions,
}

impl Node {
    pub fn start(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let text = format!("InitiatorName=iqn.2026-01.test:{name}\n");
        std::fs::write(path("initiatorname.iscsi"), text).unwrap();
        let ip = own_address();
        let options = HostOptions {
            socket: path("host.sock"),
            network: Network {
                ip: Some(ip),
                port: 2049,
            },
            initiator_name: path("initiatorname.iscsi"),
            records: path("nodes"),
            by_path: path("by-path"),
            sysfs: None,
            mapper: Some(path("mapper")),
            label: "test".to_owned(),
        };
        Self {
            mounts: Vec::new(),
            host: Some(Host::start(&options).unwrap()),
            ip,
            directory,
            options,
        }
    }

    /// The process dies without a chance to clean up, and another takes its place.
    pub fn replace_host(&mut self) {
        std::mem::forget(self.host.take());
        self.host = Some(Host::start(&self.options).unwrap());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub async fn try_mount(&mut self, source: &str, options: &str) -> Result<PathBuf, MountError> {
        let target = self.path(&format!("mnt-{}", self.mounts.len()));
        std::fs::create_dir_all(&target).unwrap();
        let arguments = [source, target.to_str().unwrap(), "-o", options];
        let arguments = arguments.map(OsString::from);
        let socket = self.path("host.sock");
        blocking(move || mount_nfs(arguments, &socket)).await?;
        self.mounts.push(target.clone());
        Ok(target)
    }

    pub async fn mount(&mut self, source: &str, options: &str) -> PathBuf {
        self.try_mount(source, options).await.unwrap()
    }

    pub async fn iscsiadm(&self, line: &str) -> Printed {
        let arguments = line.split(' ').map(ToOwned::to_owned).collect();
        let socket = self.path("host.sock");
        blocking(move || iscsiadm(arguments, &socket)).await
    }

    /// The only disk that it has a link to.
    pub fn disk(&self) -> Option<PathBuf> {
        let mut links = std::fs::read_dir(self.path("by-path")).unwrap();
        let link = links.next()?.unwrap().path();
        assert!(links.next().is_none(), "several disks");
        Some(link)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for target in &self.mounts {
            let _ = unmount(target, UnmountFlags::DETACH);
        }
    }
}

/// Runs what may wait for the node off the runtime's threads.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Reads a file again and again until it ends so.
pub async fn reads(file: &Path, wanted: Result<&'static str, i32>) {
    let file = file.to_owned();
    blocking(move || {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let read = std::fs::read_to_string(&file);
            let read = read.map_err(|error| error.raw_os_error().unwrap_or(0));
            if read.as_deref() == wanted.as_ref().map(|text| *text) {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{read:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    })
    .await;
}
