//! The frontends of nodes, as the cluster knows them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::weka::core::lock;
use crate::weka::state::{Container, Millis};

/// A frontend that was not heard of for so long is DOWN.
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

/// What a frontend's stand-ins of kernel files are to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Whether the interface file calls it connected; new mounts are refused if not.
    pub connected: bool,
    /// Whether the modules file has `wekafsgw`.
    pub module: bool,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            connected: true,
            module: true,
        }
    }
}

/// The frontends that reported.
#[derive(Debug, Default)]
pub struct Frontends {
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    report: Option<(Report, Millis)>,
    stage: Stage,
}

impl Frontends {
    /// A frontend is there; returns what its files are to say.
    pub fn report(&self, report: Report, now: Millis) -> Stage {
        let mut known = lock(&self.known);
        let frontend = known.entry(report.container.clone()).or_default();
        frontend.report = Some((report, now));
        frontend.stage
    }

    /// What the files of a frontend are to say from now on.
    pub fn set_stage(&self, container: &str, stage: Stage) {
        lock(&self.known)
            .entry(container.to_owned())
            .or_default()
            .stage = stage;
    }

    /// Whether a frontend may mount.
    pub fn is_connected(&self, container: &str) -> bool {
        lock(&self.known)
            .get(container)
            .is_some_and(|known| known.stage.connected)
    }

    /// Those that reported, as the REST API shows them.
    pub fn containers(&self, now: Millis) -> Vec<Container> {
        lock(&self.known)
            .values()
            .filter_map(|known| known.report.as_ref().map(|report| (report, known.stage)))
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
