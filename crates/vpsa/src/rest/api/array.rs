//! The array itself: controllers, pools, health, settings.

use serde_json::{Map, Value};

use super::super::call::Call;
use super::super::error::ApiError;
use super::super::follow::Outcome;
use super::super::id::PoolId;
use super::super::wire::{Drive, Pool, RaidGroup, VController};
use super::Api;

impl Api {
    /// The controllers, one of which is active; the others stand by.
    pub async fn vcontrollers(&self) -> Result<Vec<VController>, ApiError> {
        let call = Call::get("vcontrollers", "list controllers");
        self.list(call, "vcontrollers").await
    }

    /// All pools.
    pub async fn pools(&self) -> Result<Vec<Pool>, ApiError> {
        self.list(Call::get("pools", "list pools"), "pools").await
    }

    /// One pool, if it is there.
    pub async fn pool(&self, id: &PoolId) -> Result<Option<Pool>, ApiError> {
        self.maybe(Call::get(format!("pools/{id}"), "look at a pool"), "pool")
            .await
    }

    /// All drives.
    pub async fn drives(&self) -> Result<Vec<Drive>, ApiError> {
        self.list(Call::get("drives", "list drives"), "disks").await
    }

    /// All RAID groups.
    pub async fn raid_groups(&self) -> Result<Vec<RaidGroup>, ApiError> {
        let call = Call::get("raid_groups", "list RAID groups");
        self.list(call, "raid_groups").await
    }

    /// The array's configuration, which is not described anywhere: fields differ by version.
    pub async fn config(&self) -> Result<Map<String, Value>, ApiError> {
        let call = Call::get("config", "read the configuration");
        self.one(call, "config").await
    }

    /// Whether deleted volumes are kept for a while.
    ///
    /// Called twice: it is so.
    pub async fn set_recycle_bin(&self, on: bool) -> Result<Outcome<()>, ApiError> {
        let call = Call::post("settings/set_recycle_bin", "set the recycle bin");
        self.act(call.switch("recyclebin", on)).await
    }
}
