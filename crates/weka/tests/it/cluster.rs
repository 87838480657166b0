//! The simulated array, its client on this machine, and what a test asks of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use stowage_sim::control::SeenRequest;
use stowage_sim::weka::control::{Fault, Trouble};
use stowage_sim::weka::{Array, Frontend, FrontendOptions, Options};

use crate::helper;
use crate::rig::{GIB, Map, map};

/// Where the driver puts what was deleted.
pub const TRASH: &str = ".__internal__wekafs-async-delete";

/// The one container of the node's client.
const CONTAINER: &str = "client";

/// A simulated array, and its client on this machine.
pub struct Cluster {
    // Goes first: it tells the array that it goes.
    _frontend: Frontend,
    pub array: Array,
    /// The files of its filesystem `default`.
    pub files: PathBuf,
}

impl Cluster {
    /// An array without a client.
    pub async fn start_array(directory: &Path, change: impl FnOnce(&mut Options)) -> Array {
        stowage_service::client::install_crypto_provider();
        let mut options = Options::new(directory.join("array"));
        change(&mut options);
        Array::start(options).await.unwrap()
    }

    pub async fn start(directory: &Path, change: impl FnOnce(&mut Options)) -> Self {
        let array = Self::start_array(directory, change).await;
        let uid = array
            .control()
            .filesystem_uid("default")
            .await
            .unwrap()
            .unwrap();
        let files = directory.join("array/filesystems").join(uid).join("root");
        let frontend = client(directory, &array, CONTAINER).await;
        helper::install(directory);
        Self {
            _frontend: frontend,
            array,
            files,
        }
    }

    /// The data of a successful call to the array.
    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        self.call_as(["admin", "admin", "Root"], method, path, body)
            .await
    }

    /// The same as another user: name, password, organization.
    pub async fn call_as(
        &self,
        [username, password, organization]: [&str; 3],
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Value {
        let http = reqwest::Client::new();
        let login = json!({ "username": username, "password": password, "org": organization });
        let login = http
            .post(format!("{}/login", self.array.url()))
            .json(&login)
            .send();
        let login: Value = login.await.unwrap().json().await.unwrap();
        let token = login["data"]["access_token"].as_str().unwrap().to_owned();
        let url = format!("{}/{path}", self.array.url());
        let mut request = http
            .request(method.parse().unwrap(), url)
            .bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let is_success = response.status().is_success();
        let mut answer: Value = response.json().await.unwrap();
        assert!(is_success, "{method} {path}: {answer}");
        answer["data"].take()
    }

    /// The quota of a directory of `default`: hard and soft limit.
    pub async fn quota(&self, path: &str) -> (u64, u64) {
        self.quota_on("default", path).await
    }

    /// The quota of a directory: hard and soft limit.
    pub async fn quota_on(&self, filesystem: &str, path: &str) -> (u64, u64) {
        let uid = self
            .array
            .control()
            .filesystem_uid(filesystem)
            .await
            .unwrap()
            .unwrap();
        let resolved = self
            .call(
                "GET",
                &format!("fileSystems/{uid}/resolvePath?path=/{path}"),
                None,
            )
            .await;
        let inode = resolved["inode_id"].as_str().unwrap().to_owned();
        let quota = self
            .call("GET", &format!("fileSystems/{uid}/quota/{inode}"), None)
            .await;
        assert_eq!(quota["status"], "ACTIVE");
        (
            quota["hard_limit_bytes"].as_u64().unwrap(),
            quota["soft_limit_bytes"].as_u64().unwrap(),
        )
    }

    /// Returns when somebody has looked at quotas so many times more.
    pub async fn looked_for_quotas(&self, times: usize) {
        let control = self.array.control();
        control.take_requests().await.unwrap();
        let is_look = |it: &&SeenRequest| it.method == "GET" && it.path.contains("/quota/");
        let mut looks = 0;
        while looks < times {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let requests = control.take_requests().await.unwrap();
            looks += requests.iter().filter(is_look).count();
        }
    }

    /// Makes another filesystem.
    pub async fn add_filesystem(&self, name: &str, more: &Value) {
        let mut body = json!({ "name": name, "group_name": "default", "total_capacity": GIB });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.add_filesystem_as(["admin", "admin", "Root"], body)
            .await;
    }

    /// The same as another user; returns once it can be used.
    pub async fn add_filesystem_as(&self, user: [&str; 3], body: Value) {
        let made = self.call_as(user, "POST", "fileSystems", Some(body)).await;
        let path = format!("fileSystems/{}", made["uid"].as_str().unwrap());
        while self.call_as(user, "GET", &path, None).await["is_ready"] != true {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The names of all filesystems that are not on their way out.
    pub async fn filesystems(&self) -> Vec<String> {
        self.present("fileSystems", "is_removing").await
    }

    /// The names of all snapshots that are not on their way out.
    pub async fn snapshots(&self) -> Vec<String> {
        self.present("snapshots", "isRemoving").await
    }

    async fn present(&self, path: &str, removing: &str) -> Vec<String> {
        let all = self.call("GET", path, None).await;
        let all = all.as_array().unwrap().iter();
        let mut names: Vec<_> = all
            .filter(|one| one[removing] != true)
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    /// A filesystem of the array by name.
    pub async fn filesystem(&self, name: &str) -> Value {
        let all = self.call("GET", "fileSystems", None).await;
        let mut all = all.as_array().unwrap().iter();
        all.find(|one| one["name"] == name).unwrap().clone()
    }

    pub fn secret(&self) -> Map {
        secret_of(&self.array, &[])
    }

    pub fn secret_with(&self, more: &[(&str, &str)]) -> Map {
        secret_of(&self.array, more)
    }

    pub async fn fault(&self, method: &str, path: &str, times: u32, trouble: Trouble) {
        let fault = Fault {
            method: Some(method.to_owned()),
            path: Some(path.to_owned()),
            times: Some(times),
            trouble,
            ..Fault::default()
        };
        self.array.control().add_fault(fault).await.unwrap();
    }

    /// The directories of volumes.
    pub fn volumes(&self) -> Vec<String> {
        names(&self.files.join("csi-volumes"))
    }

    /// What waits for its removal.
    pub fn trash(&self) -> Vec<String> {
        names(&self.files.join(TRASH))
    }
}

pub fn secret_of(array: &Array, more: &[(&str, &str)]) -> Map {
    let mut secret = map(&[
        ("username", "admin"),
        ("password", "admin"),
        ("organization", "Root"),
        ("endpoints", &array.endpoints().join(",")),
        ("scheme", array.scheme()),
    ]);
    secret.extend(map(more));
    secret
}

pub fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The Weka client of this machine for a cluster.
pub async fn client(directory: &Path, array: &Array, container: &str) -> Frontend {
    let mut options = FrontendOptions::new(array, container, directory.join("sockets"));
    options.node.proc_modules = Some(directory.join("modules"));
    options.node.proc_interface = Some(directory.join("interface"));
    Frontend::start(&options).await.unwrap()
}
