//! What an array knows of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::vpsa::release::Release;

/// The array itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vpsa {
    /// Its identity, such as `vsa-0000002a`.
    pub id: String,
    /// Its name.
    pub display_name: String,
    /// The version it runs.
    pub release: Release,
    /// User of iSCSI logins, unless a server has its own.
    pub chap_user: String,
    /// Secret of iSCSI logins, in clear text: nothing here is secret.
    pub chap_secret: String,
    /// Whether deleted volumes are kept for a while.
    pub recycle_bin: bool,
    /// Whether all its drives are flash: only then it compresses and deduplicates.
    pub all_flash: bool,
    /// Whether a password for encrypted volumes is set.
    pub encryption: bool,
    /// The number that the next object gets.
    pub next_number: u32,
}

/// What clients are let in with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKey {
    /// The text itself.
    pub text: String,
    /// Whose it is.
    pub user: String,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// Its identity, such as `vsa-0000002a-vc-0`.
    pub id: String,
    /// `active`, `standby`, or what is wrong with it.
    pub state: String,
}

/// Drives together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub display_name: String,
    /// How much it holds, in GB.
    pub capacity: u64,
    /// How full it takes itself to be: `normal`, `alert`, `protected`, `emergency`.
    pub mode: String,
    /// `Normal`, or what is wrong with it.
    pub status: String,
}

/// How a volume is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataType {
    /// A disk over iSCSI.
    Block,
    /// A share over NFS.
    Nas,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Its identity.
    pub id: String,
    /// Its name, unique among volumes.
    pub display_name: String,
    /// Its consistency group.
    pub cg: String,
    /// Its pool.
    pub pool: String,
    /// How it is reached.
    pub data_type: DataType,
    /// How large it is, in GB.
    pub capacity: u64,
    /// How large it will be, and when.
    pub growth: Option<(u64, Millis)>,
    /// Where a share is, below `/export/`.
    pub export_name: String,
    /// Options as they were given.
    pub options: BTreeMap<String, String>,
    /// What people say about it.
    pub comment: String,
    /// What it is a copy of: a snapshot, or a volume.
    pub source: Option<String>,
    /// Whether its files are there.
    pub filled: bool,
    /// When it was asked for.
    pub created_at: Millis,
    /// From when on it is seen: a clone is being made out of sight.
    pub seen_at: Millis,
    /// When it can be used.
    pub ready_at: Millis,
    /// When it is gone, once somebody deleted it.
    pub removed_at: Option<Millis>,
    /// When it came into the recycle bin.
    pub recycled_at: Option<Millis>,
    /// What is wrong with it.
    pub failure: Option<String>,
}

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its identity.
    pub id: String,
    /// Its name, unique in its group.
    pub display_name: String,
    /// The group it was taken of.
    pub cg: String,
    /// The volume of that group.
    pub volume: String,
    /// How large that volume was, in GB.
    pub capacity: u64,
    /// Whether its files are there.
    pub filled: bool,
    /// When it was taken.
    pub created_at: Millis,
    /// When it can be used.
    pub ready_at: Millis,
    /// When it is gone, once somebody deleted it.
    pub removed_at: Option<Millis>,
}

/// A host that volumes are attached to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Its identity.
    pub id: String,
    /// Its name, unique among servers.
    pub display_name: String,
    /// Its address, or network in CIDR form, or empty.
    pub ip: String,
    /// Its name among initiators, or empty.
    pub iqn: String,
    /// User of its logins.
    pub chap_user: String,
    /// Secret of its logins.
    pub chap_secret: String,
    /// When it was made.
    pub created_at: Millis,
}

/// A volume on a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The volume.
    pub volume: String,
    /// The server.
    pub server: String,
    /// The number of the disk there; 0 for shares.
    pub lun: u64,
    /// Whether the server may only read.
    pub read_only: bool,
    /// When the server can use it.
    pub ready_at: Millis,
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drive {
    /// Its identity.
    pub id: String,
    /// `Normal`, or what is wrong with it.
    pub status: String,
}

/// Drives that protect each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaidGroup {
    /// Its identity.
    pub id: String,
    /// `Normal`, or what is wrong with it.
    pub status: String,
}

impl Vpsa {
    /// What it is stored under: there is one.
    pub fn key(&self) -> String {
        "vpsa".to_owned()
    }
}

impl AccessKey {
    /// What it is stored under.
    pub fn key(&self) -> String {
        self.text.clone()
    }
}

impl Attachment {
    /// What it is stored under.
    pub fn key(&self) -> String {
        attachment_key(&self.volume, &self.server)
    }
}

/// What the attachment of a volume to a server is stored under.
pub fn attachment_key(volume: &str, server: &str) -> String {
    format!("{volume}/{server}")
}

macro_rules! keyed_by_id {
    ($($type:ident)*) => {$(
        impl $type {
            /// What it is stored under.
            pub fn key(&self) -> String {
                self.id.clone()
            }
        }
    )*};
}

keyed_by_id! { Controller Pool Volume Snapshot Server Drive RaidGroup }

impl Volume {
    /// How large it is at a moment, in GB.
    pub fn capacity_at(&self, now: Millis) -> u64 {
        match self.growth {
            Some((capacity, at)) if at <= now => capacity,
            _ => self.capacity,
        }
    }

    /// How large it is, or is going to be, in GB.
    pub fn promised(&self) -> u64 {
        self.growth.map_or(self.capacity, |(capacity, _)| capacity)
    }

    /// Whether it is in the recycle bin.
    pub fn is_recycled(&self) -> bool {
        self.recycled_at.is_some()
    }

    /// Whether a list of volumes shows it.
    pub fn is_seen(&self, now: Millis) -> bool {
        !self.is_recycled() && self.seen_at <= now
    }

    /// Whether data can be read and written.
    pub fn is_usable(&self, now: Millis) -> bool {
        self.is_seen(now)
            && self.filled
            && self.ready_at <= now
            && self.removed_at.is_none()
            && self.failure.is_none()
    }
}
