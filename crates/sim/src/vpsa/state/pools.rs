//! Pools: how much is free, and whether anything new is made.

use super::{Pool, Refusal, State};

/// The pool with this identity.
pub fn get<'a>(state: &'a State, id: &str) -> Result<&'a Pool, Refusal> {
    let pool = state.pools.get(id);
    pool.ok_or_else(|| Refusal::PoolMissing(id.to_owned()))
}

/// GB of all volumes of a pool, those in the recycle bin too.
pub fn provisioned(state: &State, id: &str) -> u64 {
    let volumes = state.volumes.values().filter(|volume| volume.pool == id);
    volumes.map(super::Volume::promised).sum()
}

/// GB that no volume has.
pub fn available(state: &State, pool: &Pool) -> u64 {
    pool.capacity.saturating_sub(provisioned(state, &pool.id))
}

/// Refuses what is new where the pool keeps what it has left.
pub fn check_open(pool: &Pool) -> Result<(), Refusal> {
    match pool.mode.as_str() {
        "protected" | "emergency" => Err(Refusal::PoolProtected {
            pool: pool.id.clone(),
            mode: pool.mode.clone(),
        }),
        _ => Ok(()),
    }
}

/// Refuses what does not fit.
pub fn check_room(state: &State, pool: &Pool, asked: u64) -> Result<(), Refusal> {
    let free = available(state, pool);
    if asked <= free {
        return Ok(());
    }
    Err(Refusal::NoRoom {
        pool: pool.id.clone(),
        asked,
        free,
    })
}
