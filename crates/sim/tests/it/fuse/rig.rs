//! A cluster, frontends of nodes, and mounts that go away with them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use serde_json::{Value, json};
use stowage_sim::weka::mount_helper::{self, MountError, Request};
use stowage_sim::weka::{Array, Frontend, FrontendOptions, Options};
use tempfile::TempDir;

pub struct Rig {
    // In this order: unmounted first, removed last.
    mounts: Vec<PathBuf>,
    _frontends: Vec<Frontend>,
    pub array: Array,
    pub directory: TempDir,
    http: reqwest::Client,
    token: String,
}

impl Rig {
    /// A cluster with frontends of these containers.
    pub async fn start(containers: &[&str], change: impl FnOnce(&mut Options)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut options = Options::new(directory.path().join("data"));
        options.quota_delay = Duration::ZERO;
        options.creation_delay = Duration::ZERO;
        change(&mut options);
        let array = Array::start(options).await.unwrap();
        let mut frontends = Vec::new();
        for container in containers {
            let sockets = directory.path().join("sockets");
            let mut options = FrontendOptions::new(&array, container, sockets);
            options.node.proc_modules = Some(directory.path().join("modules"));
            options.node.proc_interface = Some(directory.path().join("interface"));
            frontends.push(Frontend::start(&options).await.unwrap());
        }
        let mut rig = Self {
            mounts: Vec::new(),
            _frontends: frontends,
            array,
            directory,
            http: reqwest::Client::new(),
            token: String::new(),
        };
        let login = json!({ "username": "admin", "password": "admin", "org": "Root" });
        let login = rig.call("POST", "login", Some(login)).await;
        rig.token = login["access_token"].as_str().unwrap().into();
        rig
    }

    /// Mounts a filesystem through the frontend of a container.
    pub async fn mount(&mut self, source: &str, container: &str) -> PathBuf {
        self.try_mount(source, &format!("container_name={container}"))
            .await
            .unwrap()
    }

    pub async fn try_mount(&mut self, source: &str, options: &str) -> Result<PathBuf, MountError> {
        let target = self
            .directory
            .path()
            .join(format!("mnt-{}", self.mounts.len()));
        std::fs::create_dir_all(&target).unwrap();
        let request = Request {
            source: source.to_owned(),
            target: target.clone(),
            options: options
                .split(',')
                .filter(|o| !o.is_empty())
                .map(ToOwned::to_owned)
                .collect(),
            fake: false,
        };
        let sockets = self.directory.path().join("sockets");
        tokio::task::spawn_blocking(move || mount_helper::run(&request, &sockets))
            .await
            .unwrap()?;
        self.mounts.push(target.clone());
        Ok(target)
    }

    /// The data of a successful call.
    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let url = format!("{}/{path}", self.array.url());
        let mut request = self.http.request(method.parse().unwrap(), url);
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        let mut body: Value = response.json().await.unwrap();
        assert!(status.is_success(), "{method} {path}: {body}");
        body["data"].take()
    }

    pub async fn uid(&self, name: &str) -> String {
        let control = self.array.control();
        control.filesystem_uid(name).await.unwrap().unwrap()
    }

    /// The inode of a path on `default`, as the REST API knows it.
    pub async fn inode(&self, path: &str) -> u64 {
        let uid = self.uid("default").await;
        let path = format!("fileSystems/{uid}/resolvePath?path={path}");
        let resolved = self.call("GET", &path, None).await;
        resolved["inode_id"].as_str().unwrap().parse().unwrap()
    }

    /// Sets the quota of a directory on `default`; returns the path of the quota.
    pub async fn limit(&self, path: &str, hard: u64, soft: u64) -> String {
        let uid = self.uid("default").await;
        let quota = format!("fileSystems/{uid}/quota/{}", self.inode(path).await);
        let body =
            json!({ "hard_limit_bytes": hard, "soft_limit_bytes": soft, "grace_seconds": 0 });
        self.call("PUT", &quota, Some(body)).await;
        quota
    }

    pub async fn used(&self, quota: &str) -> u64 {
        let quota = self.call("GET", quota, None).await;
        assert_eq!(quota["status"], "ACTIVE");
        quota["used_bytes"].as_u64().unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for target in &self.mounts {
            let _ = unmount(target, UnmountFlags::DETACH);
        }
    }
}

/// Runs what may wait for the frontend off the runtime's threads.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

pub fn errno(result: std::io::Result<impl Sized>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

pub fn fill(path: &Path, bytes: usize) -> std::io::Result<()> {
    std::fs::write(path, vec![b'x'; bytes])
}
