//! The frontends of nodes, as the cluster knows them.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::weka::state::{Container, Millis};

/// A frontend that has not reported for this long is DOWN.
const SILENCE: Millis = 5000;

/// What a frontend says of itself, again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The name of its container.
    pub container: String,
    /// Its host.
    pub hostname: String,
    /// Its address.
    pub ip: String,
}

/// When a client stops that is told to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// At once: what is mounted through it answers ENOTCONN from then on.
    #[default]
    AtOnce,
    /// So many milliseconds later.
    After(u64),
    /// When nothing is mounted through it.
    WhenUnmounted,
}

/// What a frontend's stand-ins of kernel files are to say, and how it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Whether the interface file calls it connected; new mounts are refused if not.
    pub connected: bool,
    /// Whether the modules file has `wekafsgw`.
    pub module: bool,
    /// Whether the interface file does not list containers, as that of some releases.
    #[serde(default)]
    pub nameless: bool,
    /// When it stops, where it is a client container of its own.
    #[serde(default)]
    pub stop: Stop,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            connected: true,
            module: true,
            nameless: false,
            stop: Stop::AtOnce,
        }
    }
}

/// The frontends that reported.
#[derive(Debug, Default)]
pub struct Frontends {
    known: Mutex<BTreeMap<String, Known>>,
}

/// The frontends of one name: there may be one on every host.
#[derive(Debug, Default)]
struct Known {
    /// The last reports, by host.
    reports: BTreeMap<String, (Report, Millis)>,
    stage: Stage,
}

impl Frontends {
    /// A frontend is there; returns what its files are to say.
    pub fn report(&self, report: Report, now: Millis) -> Stage {
        let mut known = self.known.lock();
        let frontend = known.entry(report.container.clone()).or_default();
        let host = report.hostname.clone();
        frontend.reports.insert(host, (report, now));
        frontend.stage
    }

    /// What the files of a frontend are to say from now on.
    pub fn set_stage(&self, container: &str, stage: Stage) {
        self.known
            .lock()
            .entry(container.to_owned())
            .or_default()
            .stage = stage;
    }

    /// Whether a frontend may mount.
    pub fn is_connected(&self, container: &str) -> bool {
        self.known
            .lock()
            .get(container)
            .is_some_and(|known| known.stage.connected)
    }

    /// Those that reported, as the REST API shows them.
    pub fn containers(&self, now: Millis) -> Vec<Container> {
        self.known
            .lock()
            .values()
            .flat_map(|known| known.reports.values().map(|report| (report, known.stage)))
            .map(|((report, at), stage)| {
                let up = stage.connected && now < at + SILENCE;
                Container {
                    container_name: report.container.clone(),
                    hostname: report.hostname.clone(),
                    container_ip: report.ip.clone(),
                    mode: "client".to_owned(),
                    state: "ACTIVE".to_owned(),
                    status: if up { "UP" } else { "DOWN" }.to_owned(),
                    frontend_dedicated_cores: 1,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_may_have_a_container_of_the_same_name() {
        let frontends = Frontends::default();
        for hostname in ["node-a", "node-b"] {
            let report = Report {
                container: "client".to_owned(),
                hostname: hostname.to_owned(),
                ip: "127.0.0.1".to_owned(),
            };
            frontends.report(report.clone(), 0);
            frontends.report(report, 1000);
        }
        let seen = |now| {
            let all = frontends.containers(now).into_iter();
            all.map(|container| (container.hostname, container.status))
                .collect::<Vec<_>>()
        };
        let both =
            |status: &str| ["node-a", "node-b"].map(|host| (host.to_owned(), status.to_owned()));
        assert_eq!(seen(2000), both("UP"));
        assert_eq!(seen(9000), both("DOWN"));
    }
}
