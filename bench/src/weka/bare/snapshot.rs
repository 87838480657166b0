//! Volumes that are snapshots.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::json;

use super::{Bare, blocking, text};

/// What an empty filesystem has one snapshot of.
const SEED: &str = "bare-seed";

impl Bare {
    /// The empty snapshot to begin with, which is there from the round before or made now.
    pub(super) async fn make_seed(&self) -> anyhow::Result<String> {
        let query = format!("snapshots?name={SEED}");
        let found = self.call(reqwest::Method::GET, &query, None).await?;
        if let Some(found) = found.as_array().and_then(|all| all.first()) {
            return text(found, "uid");
        }
        let body = json!({"fs_uid": self.uid, "name": SEED, "access_point": SEED});
        let made = self.call(reqwest::Method::POST, "snapshots", Some(&body));
        text(&made.await?, "uid")
    }

    /// A snapshot of nothing, the number by which the array knows its root, and its quota.
    pub(super) async fn create_snapshot(&self, name: &str) -> anyhow::Result<()> {
        let body = json!({
            "fs_uid": self.uid, "name": name, "access_point": name, "is_writable": true,
            "source_snap_uid": self.seed,
        });
        let made = self.call(reqwest::Method::POST, "snapshots", Some(&body));
        let uid = text(&made.await?, "uid")?;
        self.objects.lock().insert(name.to_owned(), uid);
        let root = self.snapshot_root(name);
        blocking(move || Ok(fs::set_permissions(root, PermissionsExt::from_mode(0o750))?)).await?;
        self.limit(&self.uid, &format!(".snapshots/{name}")).await
    }

    pub(super) fn snapshot_root(&self, name: &str) -> PathBuf {
        self.places.root.join(".snapshots").join(name)
    }
}
