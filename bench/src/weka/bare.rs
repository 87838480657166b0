//! The fewest steps that could make a volume and show it, by somebody who knows everything beforehand: it is logged in, the
//! filesystem is mounted and its uid known, and no volume exists yet.
//!
//! `directory`, `snapshot` and `filesystem` are these steps for each kind of volume.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::{Value, json};

use super::backing::Backing;
use super::stage::{FILESYSTEM, Stage};
use crate::csi::SIZE;

mod directory;
mod filesystem;
mod snapshot;

/// Where its volumes are in the filesystem.
const VOLUMES: &str = "bare-volumes";

/// A client that is logged in.
pub struct Bare {
    http: reqwest::Client,
    url: String,
    token: String,
    uid: String,
    places: Places,
    sockets: PathBuf,
    backing: Backing,
    /// What the array calls the volumes that are objects of their own.
    objects: Mutex<HashMap<String, String>>,
    /// The snapshot to begin with.
    seed: String,
}

/// Where its volumes are, where deleted ones go, and where they are published.
#[derive(Clone)]
struct Places {
    /// The filesystem.
    root: PathBuf,
    volumes: PathBuf,
    trash: PathBuf,
    pods: PathBuf,
}

impl Bare {
    pub async fn connect(stage: &Stage, backing: Backing) -> anyhow::Result<Self> {
        let places = Places {
            root: stage.bare(),
            volumes: stage.bare().join(VOLUMES),
            trash: stage.bare().join("bare-trash"),
            pods: stage.pods().join("bare"),
        };
        fs::create_dir_all(&places.pods)?;
        if backing == Backing::Directory {
            for place in [&places.volumes, &places.trash] {
                fs::create_dir_all(place)?;
            }
        }
        let mut bare = Self {
            http: reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only(std::iter::empty())
                .build()?,
            url: format!("http://{}/api/v2", stage.endpoint),
            token: String::new(),
            uid: String::new(),
            places,
            sockets: stage.sockets(),
            backing,
            objects: Mutex::default(),
            seed: String::new(),
        };
        let login = json!({"username": "admin", "password": "admin", "org": "Root"});
        let login = bare.call(reqwest::Method::POST, "login", Some(&login));
        bare.token = text(&login.await?, "access_token")?;
        let query = format!("fileSystems?name={FILESYSTEM}");
        let found = bare.call(reqwest::Method::GET, &query, None).await?;
        bare.uid = text(&found[0], "uid")?;
        if backing == Backing::Snapshot {
            bare.seed = bare.make_seed().await?;
        }
        Ok(bare)
    }

    /// Makes a volume.
    pub async fn create(&self, name: &str) -> anyhow::Result<()> {
        match self.backing {
            Backing::Directory => self.create_directory(name).await,
            Backing::Snapshot => self.create_snapshot(name).await,
            Backing::Filesystem => self.create_filesystem(name).await,
        }
    }

    /// Shows a volume to a pod.
    pub async fn publish(&self, name: &str) -> anyhow::Result<()> {
        match self.backing {
            Backing::Directory => self.bind(self.places.volumes.join(name), name).await,
            Backing::Snapshot => self.bind(self.snapshot_root(name), name).await,
            Backing::Filesystem => self.mount(name, self.places.pods.join(name)).await,
        }
    }

    pub async fn unpublish(&self, name: &str) -> anyhow::Result<()> {
        let target = self.places.pods.join(name);
        blocking(move || {
            unmount(&target, UnmountFlags::NOFOLLOW)?;
            Ok(fs::remove_dir(target)?)
        })
        .await
    }

    /// Takes a volume away.
    pub async fn delete(&self, name: &str) -> anyhow::Result<()> {
        match self.backing {
            Backing::Directory => self.delete_directory(name).await,
            Backing::Snapshot => self.delete_object("snapshots", name).await,
            Backing::Filesystem => self.delete_object("fileSystems", name).await,
        }
    }

    /// Gives a directory of a filesystem its size: the number by which the array knows it, and its quota.
    async fn limit(&self, uid: &str, path: &str) -> anyhow::Result<()> {
        let resolve = format!("fileSystems/{uid}/resolvePath?path=/{path}");
        let resolved = self.call(reqwest::Method::GET, &resolve, None).await?;
        let inode = text(&resolved, "inode_id")?;
        let path = format!("fileSystems/{uid}/quota/{inode}");
        let size = json!({"hard_limit_bytes": SIZE, "soft_limit_bytes": SIZE, "grace_seconds": 0});
        let quota = self.call(reqwest::Method::PUT, &path, Some(&size)).await?;
        ensure!(
            quota["status"] == "ACTIVE",
            "a quota takes its time: {quota}"
        );
        Ok(())
    }

    async fn delete_object(&self, kind: &str, name: &str) -> anyhow::Result<()> {
        let uid = self.objects.lock().remove(name);
        let uid = uid.context("it was never made")?;
        let path = format!("{kind}/{uid}");
        self.call(reqwest::Method::DELETE, &path, None)
            .await
            .map(drop)
    }

    /// Removes what was deleted.
    pub async fn tidy(&self) -> anyhow::Result<()> {
        let trash = self.places.trash.clone();
        blocking(move || {
            if trash.exists() {
                empty(&trash)
            } else {
                Ok(())
            }
        })
        .await
    }

    async fn call(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut request = self.http.request(method, format!("{}/{path}", self.url));
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await?.error_for_status()?;
        let mut answer: Value = answer.json().await?;
        Ok(answer["data"].take())
    }
}

fn empty(directory: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        fs::remove_dir(entry?.path())?;
    }
    Ok(())
}

fn text(object: &Value, field: &str) -> anyhow::Result<String> {
    let found = object[field].as_str();
    let found = found.with_context(|| format!("the array's answer has no `{field}`: {object}"))?;
    Ok(found.to_owned())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await?
}
