//! Server records, and volumes that are attached to them.

use secrecy::{ExposeSecret, SecretString};

use super::super::call::Call;
use super::super::error::ApiError;
use super::super::follow::Outcome;
use super::super::id::{ServerId, VolumeId};
use super::super::wire::{Server, Volume};
use super::Api;

/// A Server record to be made.
#[derive(Clone, Debug)]
pub struct NewServer<'a> {
    /// Its name.
    pub display_name: &'a str,
    /// The host's address, or network in CIDR form.
    pub ip: Option<&'a str>,
    /// The host's name among iSCSI initiators.
    pub iqn: Option<&'a str>,
    /// What the host logs in with; the array makes it up otherwise.
    pub chap: Option<Chap<'a>>,
}

/// What a host logs in with.
#[derive(Clone, Debug)]
pub struct Chap<'a> {
    /// User.
    pub user: &'a str,
    /// Secret, of 12 to 16 characters.
    pub secret: &'a SecretString,
}

/// How a volume is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A disk.
    Block,
    /// A share.
    Nfs,
}

fn path(id: &ServerId) -> String {
    format!("servers/{id}")
}

impl Api {
    /// All Server records.
    pub async fn servers(&self) -> Result<Vec<Server>, ApiError> {
        self.list(Call::get("servers", "list servers"), "servers")
            .await
    }

    /// One Server record, if it is there.
    pub async fn server(&self, id: &ServerId) -> Result<Option<Server>, ApiError> {
        self.maybe(Call::get(path(id), "look at a server"), "server")
            .await
    }

    /// Makes a Server record.
    ///
    /// Called twice: refused with [`Refusal::NameTaken`](super::super::Refusal::NameTaken).
    pub async fn create_server(&self, new: &NewServer<'_>) -> Result<Outcome<ServerId>, ApiError> {
        let call = described(Call::post("servers", "create a server"), new);
        self.change(call, "server_name").await
    }

    /// Changes address, IQN or credentials of a Server record, which must have no volumes.
    ///
    /// Called twice: it is so.
    pub async fn configure_server(
        &self,
        id: &ServerId,
        new: &NewServer<'_>,
    ) -> Result<Outcome<()>, ApiError> {
        let call = Call::post(format!("{}/config", path(id)), "change a server");
        self.act(described(call, new)).await
    }

    /// Gives a Server record another name.
    ///
    /// Called twice: it has that name.
    pub async fn rename_server(&self, id: &ServerId, name: &str) -> Result<Outcome<()>, ApiError> {
        let call = Call::post(format!("{}/rename", path(id)), "rename a server");
        self.act(call.set("new_name", name)).await
    }

    /// Removes a Server record, which must have no volumes.
    ///
    /// Called twice: it is removed.
    pub async fn delete_server(&self, id: &ServerId) -> Result<Outcome<()>, ApiError> {
        self.remove(Call::delete(path(id), "delete a server")).await
    }

    /// The volumes that are attached to a server.
    pub async fn server_volumes(&self, id: &ServerId) -> Result<Vec<Volume>, ApiError> {
        let call = Call::get(
            format!("{}/volumes", path(id)),
            "list the volumes of a server",
        );
        self.list(call, "volumes").await
    }

    /// Attaches a volume to a server. The number of the disk is in [`Api::volume_servers`].
    ///
    /// Called twice: it is attached.
    pub async fn attach_volume(
        &self,
        server: &ServerId,
        volume: &VolumeId,
        access: Access,
        read_only: bool,
    ) -> Result<Outcome<()>, ApiError> {
        let access = (access == Access::Nfs).then_some("NFS");
        let call = Call::post(format!("{}/volumes", path(server)), "attach a volume")
            .set("volume_name", volume.as_str())
            .maybe("access_type", access)
            .switch("readonly", read_only)
            .switch("force", false);
        self.act(call).await
    }
}

fn described(call: Call, new: &NewServer<'_>) -> Call {
    let chap = new.chap.as_ref();
    call.set("display_name", new.display_name)
        .maybe("iscsi", new.ip)
        .maybe("iqn", new.iqn)
        .maybe("vpsachapuser", chap.map(|chap| chap.user))
        .maybe(
            "vpsachapsecret",
            chap.map(|chap| chap.secret.expose_secret()),
        )
}
