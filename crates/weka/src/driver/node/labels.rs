//! Readiness of this node: as a check of the process, and as labels of the Node object.
//!
//! Labels decide where pods may go, so they do not follow every hiccup: they appear when the client is there and go when
//! it has been away for a while. They are written when they change and at no other time, and stay when the driver is
//! restarted: pods do not need it to go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};
use stowage_service::health::Check;
use tokio::time::{MissedTickBehavior, interval};

use crate::driver::Driver;
use crate::error::{Error, chain};
use crate::rest::Deadline;
use crate::topology::{self, Transport};

/// How often it is looked at while patience lasts: one bad look is not enough.
const LOOKS: u32 = 4;

/// How often the labels are compared with what they should be, although nothing has happened.
const COMPARE_EVERY: Duration = Duration::from_secs(600);

/// The same while WEKA's plugin, whose place this driver may take, is still about to end: it takes the labels along.
const COMPARE_AT_FIRST: Duration = Duration::from_secs(20);

/// How long that may be: as long as a pod has by default, and as much again for whoever deletes it.
const AT_FIRST: Duration = Duration::from_secs(60);

/// How long labels that were written are taken to be there, by the age of this process.
fn lasting(age: Duration) -> Duration {
    if age < AT_FIRST {
        COMPARE_AT_FIRST
    } else {
        COMPARE_EVERY
    }
}

/// Whether a node counts as usable, without following every hiccup of its client.
#[derive(Debug)]
struct Steady {
    /// How long the client must be away before its node does not count as usable any more.
    patience: Duration,
    usable: Option<bool>,
    away_since: Option<Instant>,
}

impl Steady {
    fn new(patience: Duration) -> Self {
        Self {
            patience,
            usable: None,
            away_since: None,
        }
    }

    /// Takes note of what was seen; returns whether the node counts as usable, once that is known.
    fn observe(&mut self, ready: bool, now: Instant) -> Option<bool> {
        if ready {
            self.away_since = None;
            self.usable = Some(true);
        } else {
            let since = *self.away_since.get_or_insert(now);
            if now.duration_since(since) >= self.patience {
                self.usable = Some(false);
            }
        }
        self.usable
    }
}

/// Watches the client for as long as the process runs.
pub(crate) async fn watch(driver: Arc<Driver>, check: Check) {
    let patience = driver.config.label_patience;
    let mut ticks = interval(driver.config.label_look.min(patience / LOOKS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut steady = Steady::new(patience);
    let started = Instant::now();
    let mut written: Option<(Option<Transport>, Instant)> = None;
    loop {
        tokio::select! {
            () = driver.stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let connected = connection(&driver).await;
        let Some(is_connected) = steady.observe(connected.is_ok(), Instant::now()) else {
            report(&driver, &check, connected);
            continue;
        };
        let usable = usable(&driver, is_connected, connected, &check);
        let lasting = lasting(started.elapsed());
        let current = written.is_some_and(|(value, at)| value == usable && at.elapsed() < lasting);
        if current || !driver.config.labels {
            continue;
        }
        match write(&driver, usable).await {
            Ok(()) => written = Some((usable, Instant::now())),
            Err(error) => {
                tracing::warn!(%error, "Cannot write the node's labels; trying again later.");
            }
        }
    }
}

/// Whether the Weka client of this node works.
pub(super) async fn connection(driver: &Driver) -> Result<(), Error> {
    let deadline = Deadline::after(driver.config.client_time);
    let frontends = driver.client.frontends(deadline).await?;
    Ok(frontends.check()?)
}

/// Reports whether anything can be mounted; returns how, at this moment.
fn report(driver: &Driver, check: &Check, connected: Result<(), Error>) -> Option<Transport> {
    match driver.mounts.transport(connected) {
        Ok(transport) => {
            check.ready();
            Some(transport)
        }
        Err(error) => {
            check.not_ready(chain(&error));
            None
        }
    }
}

/// How the node counts as usable: a client that is away for a moment does not change that.
fn usable(
    driver: &Driver,
    is_connected: bool,
    connected: Result<(), Error>,
    check: &Check,
) -> Option<Transport> {
    let now = report(driver, check, connected);
    if is_connected && !driver.config.nfs.always {
        Some(Transport::Wekafs)
    } else {
        now.filter(|transport| *transport == Transport::Nfs)
    }
}

async fn write(driver: &Driver, usable: Option<Transport>) -> Result<(), kube::Error> {
    let Some(client) = &driver.kube else {
        return Ok(());
    };
    let config = &driver.config;
    let api = Api::<Node>::all(client.clone());
    let node = api.get(&config.node).await?;
    let transport = usable.unwrap_or(Transport::Wekafs);
    let wanted = topology::labels(&config.serving.driver_name, &config.node, transport);
    let Some(patch) = difference(node.labels(), &wanted, usable.is_some()) else {
        return Ok(());
    };
    api.patch(&config.node, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    tracing::info!(
        node = config.node,
        ?usable,
        "The node's labels were changed."
    );
    Ok(())
}

/// What to send so that the labels are all there or all gone; none if they are.
fn difference(
    live: &BTreeMap<String, String>,
    wanted: &BTreeMap<String, String>,
    usable: bool,
) -> Option<Value> {
    let mut changes = Map::new();
    for (key, value) in wanted {
        match (live.get(key), usable) {
            (Some(held), true) if held == value => {}
            (_, true) => {
                changes.insert(key.clone(), json!(value));
            }
            (Some(_), false) => {
                changes.insert(key.clone(), Value::Null);
            }
            (None, false) => {}
        }
    }
    (!changes.is_empty()).then(|| json!({ "metadata": { "labels": changes } }))
}

/// Zone and region of a node, from its Node object.
pub(crate) async fn zones(client: Option<&kube::Client>, node: &str) -> BTreeMap<String, String> {
    let Some(client) = client else {
        return BTreeMap::new();
    };
    match Api::<Node>::all(client.clone()).get(node).await {
        Ok(node) => {
            let labels = node.labels().clone().into_iter();
            labels
                .filter(|(key, _)| topology::ZONES.contains(&key.as_str()))
                .collect()
        }
        Err(error) => {
            tracing::warn!(%error, node, "Cannot read the node's zone; the node reports no zone.");
            BTreeMap::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_follow_every_hiccup() {
        let mut steady = Steady::new(Duration::from_secs(60));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(steady.observe(false, at(0)), None, "nothing is known yet");
        assert_eq!(steady.observe(true, at(10)), Some(true));
        assert_eq!(steady.observe(false, at(20)), Some(true));
        assert_eq!(steady.observe(true, at(30)), Some(true));
        assert_eq!(steady.observe(false, at(40)), Some(true));
        assert_eq!(steady.observe(false, at(99)), Some(true));
        assert_eq!(steady.observe(false, at(100)), Some(false));
        assert_eq!(steady.observe(true, at(110)), Some(true));
    }

    #[test]
    fn labels_that_a_plugin_takes_along_when_it_ends_come_back_within_a_minute_and_a_half() {
        let mut age = Duration::ZERO;
        while age < AT_FIRST {
            age += lasting(age);
        }
        assert!(age < Duration::from_secs(90), "{age:?}");
        assert_eq!(lasting(age), COMPARE_EVERY);
    }

    #[test]
    fn only_what_differs_is_written() {
        let wanted = topology::labels("csi.weka.io", "n1", Transport::Wekafs);
        let patch = difference(&BTreeMap::new(), &wanted, true).unwrap();
        assert_eq!(patch["metadata"]["labels"].as_object().unwrap().len(), 4);
        assert_eq!(difference(&wanted, &wanted, true), None);
        let by_nfs = topology::labels("csi.weka.io", "n1", Transport::Nfs);
        let patch = difference(&wanted, &by_nfs, true).unwrap();
        let changed = json!({ "topology.csi.weka.io/transport": "nfs" });
        assert_eq!(patch["metadata"]["labels"], changed);
        assert_eq!(difference(&BTreeMap::new(), &wanted, false), None);
        let mut live = wanted.clone();
        live.insert("foreign".to_owned(), "stays".to_owned());
        let patch = difference(&live, &wanted, false).unwrap();
        assert_eq!(
            patch["metadata"]["labels"]["topology.csi.weka.io/accessible"],
            Value::Null
        );
        assert_eq!(patch["metadata"]["labels"].as_object().unwrap().len(), 4);
    }
}
