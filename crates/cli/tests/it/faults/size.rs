//! How much is done: little in an ordinary test run, as much as `./x soak` says in its variables.

use std::env;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use crate::faults::plan::Size;
use crate::faults::scenario::Scenario;
use crate::faults::scene::Setting;

/// The size of all scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub claims: usize,
    /// Claims that grow, with a snapshot and what is restored from it.
    pub lines: usize,
    /// Of the sidecar.
    pub kills: usize,
    pub driver_kills: usize,
    /// How long the API server is away.
    pub outage: Duration,
    pub seed: u64,
}

impl Scale {
    /// One part in `part` of the claims, and so many faults.
    pub fn size(&self, part: usize, faults: usize) -> Size {
        Size {
            claims: self.claims / part,
            lines: 0,
            faults: faults.max(1),
            attach: true,
        }
    }

    /// The same with one part in `part` of the lines, and no other claims.
    pub fn size_of_lines(&self, part: usize, faults: usize) -> Size {
        Size {
            claims: 0,
            lines: self.lines / part,
            faults: faults.max(1),
            attach: false,
        }
    }

    /// One replica, and nothing happens to it.
    pub fn scenario(&self, name: &'static str) -> Scenario {
        Scenario {
            setting: Setting {
                name,
                replicas: 1,
                snapshots: false,
                seed: self.seed,
            },
            faults: &[],
            size: self.size(1, 1),
            outage: Duration::ZERO,
        }
    }

    /// What the environment says.
    pub fn get() -> Self {
        Self {
            claims: variable("STOWAGE_SOAK_CLAIMS", 100),
            lines: variable("STOWAGE_SOAK_SNAPSHOTS", 20),
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
        Ok(text) => {
            let number = text.parse().ok();
            number.unwrap_or_else(|| panic!("{name} is `{text}`, which is no number"))
        }
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
