//! What an array says of itself.

use secrecy::SecretString;
use stowage_api::vpsa::CapacityMode;

use crate::rest::wire::{Health, Pool, Server, Snapshot, VController, Volume};
use crate::rest::{Api, ApiError};

/// What an array says of itself.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The controller that works, if one does.
    pub controller: Option<VController>,
    /// Its pools.
    pub pools: Vec<Pool>,
    /// Pools, drives and RAID groups that do not work.
    pub failed: Vec<String>,
    /// What is on it, if it was asked for that, too.
    pub content: Option<Content>,
}

/// What is on an array, whoever made it.
#[derive(Clone, Debug)]
pub struct Content {
    /// Volumes.
    pub volumes: Vec<Volume>,
    /// Snapshots.
    pub snapshots: Vec<Snapshot>,
    /// Server records.
    pub servers: Vec<Server>,
}

impl Content {
    /// Asks the array for whole lists.
    async fn ask(api: &Api) -> Result<Self, ApiError> {
        Ok(Self {
            volumes: api.volumes().await?,
            snapshots: api.snapshots().await?,
            servers: api.servers().await?,
        })
    }
}

impl Facts {
    /// Asks the array; for `content` only where somebody needs it, because there may be much.
    pub async fn ask(api: &Api, content: bool) -> Result<Self, ApiError> {
        let controllers = api.vcontrollers().await?;
        let pools = api.pools().await?;
        let failed_pools = pools.iter().filter(|it| it.health() == Health::Failed);
        let mut failed: Vec<String> = failed_pools
            .map(|pool| format!("pool {} is {}", pool.display_name, pool.status))
            .collect();
        for drive in api.drives().await? {
            if drive.health() == Health::Failed {
                failed.push(format!("drive {} is {}", drive.name, drive.status));
            }
        }
        for group in api.raid_groups().await? {
            if group.health() == Health::Failed {
                failed.push(format!("RAID group {} is {}", group.name, group.status));
            }
        }
        Ok(Self {
            controller: controllers.into_iter().find(VController::is_active),
            pools,
            failed,
            content: if content {
                Some(Content::ask(api).await?)
            } else {
                None
            },
        })
    }

    /// The pools alone.
    pub fn of_pools(pools: Vec<Pool>) -> Self {
        Self {
            controller: None,
            pools,
            failed: Vec::new(),
            content: None,
        }
    }

    /// The secret of logins.
    pub fn chap_secret(&self) -> Option<&SecretString> {
        let controller = self.controller.as_ref()?;
        (!controller.vpsa_chap_user.is_empty()).then_some(&controller.vpsa_chap_secret)
    }

    /// The pool that volumes of a class go to: the one that it names, or the only one.
    pub fn pool(&self, named: Option<&str>) -> Result<&Pool, String> {
        let Some(name) = named.filter(|name| !name.is_empty()) else {
            return match self.pools.as_slice() {
                [only] => Ok(only),
                [] => Err("it has no pool".to_owned()),
                several => Err(format!(
                    "it has {} pools: name one of them in `poolName` of the VSCStorageClass",
                    several.len()
                )),
            };
        };
        let mut pools = self.pools.iter();
        let found = pools.find(|it| it.id.as_str() == name || it.display_name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self
                .pools
                .iter()
                .map(|it| it.display_name.as_str())
                .collect();
            format!("it has no pool `{name}`, only {}", known.join(", "))
        })
    }

    /// The worst of its pools.
    pub fn mode(&self) -> CapacityMode {
        let modes = self.pools.iter().map(Pool::capacity_mode);
        modes.max().unwrap_or_default()
    }
}
