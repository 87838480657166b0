//! Volumes: make, find, change, remove, and the recycle bin.

use std::collections::BTreeMap;

use super::super::call::Call;
use super::super::error::ApiError;
use super::super::follow::Outcome;
use super::super::id::{PoolId, ServerId, VolumeId};
use super::super::wire::{AttachedServer, Volume};
use super::Api;

/// Parameters of the array's call that come from here and from nowhere else.
const OWN: [&str; 7] = [
    "name",
    "capacity",
    "pool",
    "block",
    "attachpolicies",
    "timeout",
    "access_key",
];

/// How a new volume is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A disk over iSCSI.
    Block,
    /// A share over NFS.
    Nas,
}

/// A volume to be made.
#[derive(Clone, Debug)]
pub struct NewVolume<'a> {
    /// Its name, unique on the array.
    pub name: &'a str,
    /// How large it is to be, in GB.
    pub capacity: u64,
    /// Where.
    pub pool: &'a PoolId,
    /// What.
    pub kind: Kind,
    /// Further parameters, as people wrote them; those of the fields above are ignored.
    pub options: &'a BTreeMap<String, String>,
}

fn path(id: &VolumeId) -> String {
    format!("volumes/{id}")
}

impl Api {
    /// All volumes.
    pub async fn volumes(&self) -> Result<Vec<Volume>, ApiError> {
        self.list(Call::get("volumes", "list volumes"), "volumes")
            .await
    }

    /// One volume, if it is there.
    pub async fn volume(&self, id: &VolumeId) -> Result<Option<Volume>, ApiError> {
        self.maybe(Call::get(path(id), "look at a volume"), "volume")
            .await
    }

    /// The volume with this name, if there is one.
    pub async fn volume_named(&self, name: &str) -> Result<Option<Volume>, ApiError> {
        // The array's own filter is not trusted: some versions look at the first word only.
        let call = Call::get("volumes", "look for a volume").set("display_name", name);
        let found: Vec<Volume> = self.list(call, "volumes").await?;
        Ok(found.into_iter().find(|one| one.display_name == name))
    }

    /// Makes a volume; its snapshots are nobody's business but ours.
    ///
    /// Called twice: refused with [`Refusal::NameTaken`](super::super::Refusal::NameTaken).
    pub async fn create_volume(&self, new: &NewVolume<'_>) -> Result<Outcome<VolumeId>, ApiError> {
        let mut call = Call::post("volumes", "create a volume");
        // Root in a pod is root on its share, unless somebody wants it otherwise.
        if new.kind == Kind::Nas {
            call = call.switch("nfsrootsquash", false);
        } else {
            call = call.switch("thin", true);
        }
        for (name, value) in new.options {
            if !OWN.contains(&name.as_str()) {
                call = call.set(name, value.as_str());
            }
        }
        let call = call
            .set("name", new.name)
            .set("capacity", size(new.capacity))
            .set("pool", new.pool.as_str())
            .switch("block", new.kind == Kind::Block)
            .switch("attachpolicies", false);
        self.change(call, "vol_name").await
    }

    /// Makes a volume larger by `more` GB: the array takes what is added, not what it shall be.
    ///
    /// Called twice: it grows twice. Look at its size before.
    pub async fn expand_volume(&self, id: &VolumeId, more: u64) -> Result<Outcome<()>, ApiError> {
        let call = Call::post(format!("{}/expand", path(id)), "expand a volume");
        self.act(call.set("capacity", size(more))).await
    }

    /// Gives a volume another name.
    ///
    /// Called twice: it has that name.
    pub async fn rename_volume(&self, id: &VolumeId, name: &str) -> Result<Outcome<()>, ApiError> {
        let call = Call::post(format!("{}/rename", path(id)), "rename a volume");
        self.act(call.set("new_name", name)).await
    }

    /// Says something else about a volume.
    ///
    /// Called twice: it is said already.
    pub async fn comment_volume(
        &self,
        id: &VolumeId,
        comment: &str,
    ) -> Result<Outcome<()>, ApiError> {
        let path = format!("{}/update_comment", path(id));
        let call = Call::post(path, "change the comment of a volume");
        self.act(call.set("new_comment", comment)).await
    }

    /// Removes a volume that is not attached and has no snapshots; into the recycle bin, if the array has it on.
    ///
    /// By force the array is told not to mind what it would warn of.
    ///
    /// Called twice: it is removed.
    pub async fn delete_volume(
        &self,
        id: &VolumeId,
        by_force: bool,
    ) -> Result<Outcome<()>, ApiError> {
        let call = Call::delete(path(id), "delete a volume").switch("force", by_force);
        self.remove(call).await
    }

    /// The volumes in the recycle bin of a pool.
    pub async fn recycle_bin(&self, pool: &PoolId) -> Result<Vec<Volume>, ApiError> {
        let path = format!("pools/{pool}/volumes_in_recycle_bin");
        self.list(Call::get(path, "look into the recycle bin"), "volumes")
            .await
    }

    /// Removes a volume from the recycle bin, and its data with it.
    ///
    /// Called twice: it is removed.
    pub async fn purge_volume(&self, id: &VolumeId) -> Result<Outcome<()>, ApiError> {
        let path = format!("{}/delete_volume_from_recycle_bin", path(id));
        self.remove(Call::delete(path, "empty the recycle bin"))
            .await
    }

    /// The servers that a volume is attached to, with the number of its disk on each.
    pub async fn volume_servers(&self, id: &VolumeId) -> Result<Vec<AttachedServer>, ApiError> {
        let path = format!("{}/servers", path(id));
        let call = Call::get(path, "list the servers of a volume");
        self.list(call, "servers").await
    }

    /// Detaches a volume from servers, whatever they are doing with it.
    ///
    /// Called twice: it is detached.
    pub async fn detach_volume(
        &self,
        id: &VolumeId,
        servers: &[&ServerId],
    ) -> Result<Outcome<()>, ApiError> {
        let names: Vec<&str> = servers.iter().map(|server| server.as_str()).collect();
        let call = Call::post(format!("{}/detach", path(id)), "detach a volume")
            .set("servers", names.join(","))
            .switch("force", true);
        self.remove(call).await
    }
}

/// As the array takes sizes.
fn size(gigabytes: u64) -> String {
    format!("{gigabytes}G")
}
