//! How much is done: little in an ordinary test run, as much as `./x soak` says in its variables.

use std::{env, str::FromStr, sync::OnceLock, time::Duration};

/// The size of all scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub claims: usize,
    /// Of the sidecar.
    pub kills: usize,
    pub driver_kills: usize,
    /// How long the API server is away.
    pub outage: Duration,
    pub seed: u64,
}

impl Scale {
    /// What the environment says.
    pub fn get() -> Self {
        Self {
            claims: variable("STOWAGE_SOAK_CLAIMS", 100),
            kills: variable("STOWAGE_SOAK_KILLS", 10),
            driver_kills: variable("STOWAGE_SOAK_DRIVER_KILLS", 5),
            outage: Duration::from_secs(variable("STOWAGE_SOAK_OUTAGE_SECONDS", 5)),
            seed: variable("STOWAGE_SOAK_SEED", any_seed()),
        }
    }
}

fn variable<T: FromStr>(name: &str, otherwise: T) -> T {
    match env::var(name) {
        Err(_) => otherwise,
        Ok(text) => match text.parse() {
            Ok(value) => value,
            Err(_) => panic!("{name} is `{text}`, which is no number"),
        },
    }
}

/// One for all scenarios of a run, short enough to be typed.
fn any_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap();
        (now.as_secs() ^ u64::from(now.subsec_nanos())) % 1_000_000
    })
}
