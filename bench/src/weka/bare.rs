//! The fewest steps that could make a volume and show it, by somebody who knows everything beforehand: it is logged in, the
//! filesystem is mounted and its uid known, and no volume exists yet.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use serde_json::{Value, json};

use super::calls::SIZE;
use super::stage::{FILESYSTEM, Stage};

/// Where its volumes are in the filesystem.
const VOLUMES: &str = "bare-volumes";

/// A client that is logged in.
pub struct Bare {
    http: reqwest::Client,
    url: String,
    token: String,
    uid: String,
    places: Places,
}

/// Where its volumes are, where deleted ones go, and where they are published.
#[derive(Clone)]
struct Places {
    volumes: PathBuf,
    trash: PathBuf,
    pods: PathBuf,
}

impl Bare {
    pub async fn connect(stage: &Stage) -> anyhow::Result<Self> {
        let places = Places {
            volumes: stage.bare().join(VOLUMES),
            trash: stage.bare().join("bare-trash"),
            pods: stage.pods().join("bare"),
        };
        for place in [&places.volumes, &places.trash, &places.pods] {
            fs::create_dir_all(place)?;
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
        };
        let login = json!({"username": "admin", "password": "admin", "org": "Root"});
        let login = bare.call(reqwest::Method::POST, "login", Some(&login));
        bare.token = text(&login.await?, "access_token")?;
        let query = format!("fileSystems?name={FILESYSTEM}");
        let found = bare.call(reqwest::Method::GET, &query, None).await?;
        bare.uid = text(&found[0], "uid")?;
        Ok(bare)
    }

    /// A directory, the number by which the array knows it, and its quota.
    pub async fn create(&self, name: &str) -> anyhow::Result<()> {
        let directory = self.places.volumes.join(name);
        blocking(move || {
            fs::create_dir(&directory)?;
            Ok(fs::set_permissions(
                &directory,
                PermissionsExt::from_mode(0o750),
            )?)
        })
        .await?;
        let path = format!(
            "fileSystems/{}/resolvePath?path=/{VOLUMES}/{name}",
            self.uid
        );
        let resolved = self.call(reqwest::Method::GET, &path, None).await?;
        let inode = text(&resolved, "inode_id")?;
        let path = format!("fileSystems/{}/quota/{inode}", self.uid);
        let size = json!({"hard_limit_bytes": SIZE, "soft_limit_bytes": SIZE, "grace_seconds": 0});
        let quota = self.call(reqwest::Method::PUT, &path, Some(&size)).await?;
        ensure!(
            quota["status"] == "ACTIVE",
            "a quota takes its time: {quota}"
        );
        Ok(())
    }

    /// A bind, and the directory to bind it to.
    pub async fn publish(&self, name: &str) -> anyhow::Result<()> {
        let (source, target) = (self.places.volumes.join(name), self.places.pods.join(name));
        blocking(move || {
            fs::create_dir(&target)?;
            Ok(mount_bind(source, target)?)
        })
        .await
    }

    pub async fn unpublish(&self, name: &str) -> anyhow::Result<()> {
        let target = self.places.pods.join(name);
        blocking(move || {
            unmount(&target, UnmountFlags::NOFOLLOW)?;
            Ok(fs::remove_dir(target)?)
        })
        .await
    }

    /// Out of the way; the data is removed later.
    pub async fn delete(&self, name: &str) -> anyhow::Result<()> {
        let (from, to) = (self.places.volumes.join(name), self.places.trash.join(name));
        blocking(move || Ok(fs::rename(from, to)?)).await
    }

    /// Removes what was deleted.
    pub async fn tidy(&self) -> anyhow::Result<()> {
        let trash = self.places.trash.clone();
        blocking(move || empty(&trash)).await
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
