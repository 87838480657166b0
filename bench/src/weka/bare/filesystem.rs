//! Volumes that are filesystems.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::mount::{UnmountFlags, unmount};
use serde_json::json;
use stowage_sim::weka::mount_helper::{self, Request};

use super::{Bare, blocking, text};
use crate::csi::SIZE;

impl Bare {
    /// A filesystem, a mount of it for its permissions, the number by which the array knows its root, and its quota.
    pub(super) async fn create_filesystem(&self, name: &str) -> anyhow::Result<()> {
        let body = json!({"name": name, "group_name": "default", "total_capacity": SIZE});
        let made = self.call(reqwest::Method::POST, "fileSystems", Some(&body));
        let uid = text(&made.await?, "uid")?;
        self.objects.lock().insert(name.to_owned(), uid.clone());
        let place = self.places.pods.join(format!("{name}-root"));
        self.mount(name, place.clone()).await?;
        blocking(move || {
            fs::set_permissions(&place, PermissionsExt::from_mode(0o750))?;
            unmount(&place, UnmountFlags::NOFOLLOW)?;
            Ok(fs::remove_dir(place)?)
        })
        .await?;
        self.limit(&uid, "").await
    }

    /// Mounts a filesystem of its own. No token: it is of the organization that needs none.
    pub(super) async fn mount(&self, filesystem: &str, target: PathBuf) -> anyhow::Result<()> {
        let (filesystem, sockets) = (filesystem.to_owned(), self.sockets.clone());
        blocking(move || {
            fs::create_dir(&target)?;
            let request = Request {
                source: filesystem,
                target,
                ..Request::default()
            };
            Ok(mount_helper::run(&request, &sockets)?)
        })
        .await
    }
}
