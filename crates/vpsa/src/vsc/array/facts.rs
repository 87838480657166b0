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
    /// Where its disks are reached: by every controller that works and has the same target.
    pub portals: Vec<String>,
    /// Its pools.
    pub pools: Vec<Pool>,
    /// Pools, drives and RAID groups that do not work.
    pub failed: Vec<String>,
    /// What is on it, if it was asked for that, too.
    pub content: Option<Content>,
}

/// What is on an array, whoever made it.
#[derive(Clone, Debug, Default)]
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

/// The addresses of those controllers that have the target of the first, each once.
fn portals(active: &[VController]) -> Vec<String> {
    let target = active.first().map(|it| it.target.as_str());
    let same = active
        .iter()
        .filter(|it| Some(it.target.as_str()) == target);
    let mut portals: Vec<String> = Vec::new();
    for address in same.filter_map(VController::data_address) {
        if !portals.iter().any(|known| known == address) {
            portals.push(address.to_owned());
        }
    }
    portals
}

impl Facts {
    /// Asks the array; for `content` only where somebody needs it, because there may be much.
    pub async fn ask(api: &Api, content: bool) -> Result<Self, ApiError> {
        // First, because whoever asks has just noted whose room is in what they tell.
        let pools = api.pools().await?;
        let controllers = api.vcontrollers().await?;
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
        let active: Vec<VController> = controllers
            .into_iter()
            .filter(VController::is_active)
            .collect();
        Ok(Self {
            portals: portals(&active),
            controller: active.into_iter().next(),
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
            portals: Vec::new(),
            pools,
            failed: Vec::new(),
            content: None,
        }
    }

    /// Who the array is, if it says so: addresses and names can be given to another.
    pub fn identity(&self) -> Option<&str> {
        identity(&self.controller.as_ref()?.target)
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

    /// How much room there is for volumes of a class. An array whose pool is not clear takes none, and shows everything it
    /// has.
    pub fn room(&self, named: Option<&str>) -> Room {
        let pools = match self.pool(named) {
            Ok(pool) => std::slice::from_ref(pool),
            Err(_) => &self.pools,
        };
        let modes = pools.iter().map(Pool::capacity_mode);
        Room {
            total: pools.iter().map(|pool| pool.capacity).sum(),
            available: pools.iter().map(|pool| pool.available_capacity).sum(),
            mode: modes.max().unwrap_or_default(),
        }
    }
}

/// The array that a target is of: `vsa-0000002a` in `iqn.2011-04.com.zadara:vsa-0000002a:17:1`. The rest of the name may change
/// with the version.
pub fn identity(target: &str) -> Option<&str> {
    target.split(':').find(|part| part.starts_with("vsa-"))
}

/// How much room there is, in GB.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// How much it holds.
    pub total: f64,
    /// How much of it is free.
    pub available: f64,
    /// How full it is, in the array's own judgement: the worst where there are several pools.
    pub mode: CapacityMode,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_class_has_the_room_of_its_pool_and_without_one_everything_is_shown() {
        let pool = |id: &str, name: &str, available: u32, mode: &str| -> Pool {
            let said = json!({"name": id, "display_name": name, "capacity": 100, "available_capacity": available,
                "mode": mode});
            serde_json::from_value(said).unwrap()
        };
        let pools = vec![
            pool("pool-1", "fast", 0, "normal"),
            pool("pool-2", "slow", 40, "alert"),
        ];
        let facts = Facts::of_pools(pools);
        let room = |named| {
            let Room {
                total,
                available,
                mode,
            } = facts.room(named);
            (total, available, mode)
        };
        let slow = (100.0, 40.0, CapacityMode::Alert);
        assert_eq!(room(Some("slow")), slow);
        assert_eq!(room(Some("pool-2")), slow);
        assert_eq!(room(Some("fast")), (100.0, 0.0, CapacityMode::Protected));
        assert_eq!(room(None), (200.0, 40.0, CapacityMode::Protected));
    }

    #[test]
    fn an_array_is_known_by_the_same_name_in_every_form_of_its_target() {
        for (target, expected) in [
            (
                "iqn.2011-04.com.zadara:vsa-0000002a:17:1",
                Some("vsa-0000002a"),
            ),
            (
                "iqn.2011-04.com.zadarastorage:vsa-0000002a:1",
                Some("vsa-0000002a"),
            ),
            ("iqn.2011-04.com.zadara", None),
            ("", None),
        ] {
            assert_eq!(identity(target), expected, "{target}");
        }
    }

    #[test]
    fn every_active_controller_of_the_same_target_is_a_path() {
        let controller = |target: &str, ip: &str, ipv6: &str| -> VController {
            let said =
                json!({"state": "active", "target": target, "iscsi_ip": ip, "iscsi_ipv6": ipv6});
            serde_json::from_value(said).unwrap()
        };
        let (one, two) = (
            controller("t", "10.0.0.1", ""),
            controller("t", "10.0.0.2", ""),
        );
        let (dual, other) = (
            controller("t", "10.0.0.3", "fd00::3"),
            controller("u", "10.0.0.4", ""),
        );
        assert_eq!(portals(&[]), [""; 0]);
        assert_eq!(portals(std::slice::from_ref(&dual)), ["fd00::3"]);
        let all = [one.clone(), one, two, dual, other];
        assert_eq!(portals(&all), ["10.0.0.1", "10.0.0.2", "fd00::3"]);
    }
}
