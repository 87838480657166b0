//! What a case works with: the driver, valid requests to vary, fresh names, paths, and somebody who cleans up.
//!
//! Cases call the driver only through the scene (or through its clients, for calls that make nothing): whatever a
//! call may have made is written down before it is sent and removed after the case, however the case ended.

mod flow;
mod groups;
mod ledger;
mod node;
mod snapshots;
mod undo;
mod volumes;

use std::sync::{Arc, OnceLock};

use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use stowage_csi::proto::csi::volume_capability::{self, AccessMode, BlockVolume, MountVolume};
use stowage_csi::proto::csi::{CapacityRange, TopologyRequirement, VolumeCapability};

pub(crate) use self::flow::Flow;
use self::ledger::Ledger;
pub(crate) use self::snapshots::snapshot_ids;
use crate::capability::{Need, Service};
use crate::check::{Checked, Failure};
use crate::driver::Driver;
use crate::options::{AccessType, Options};
use crate::places::{Found, Places};

/// The longest name that a driver must take.
const LONGEST_NAME: usize = 128;

/// What all cases of a run share.
pub(crate) struct Run {
    pub(crate) options: Options,
    pub(crate) driver: Driver,
    /// Part of every name, so that runs do not meet each other's volumes.
    pub(crate) id: String,
    /// Why no further case can run, once that is so.
    pub(crate) gone: OnceLock<String>,
}

impl Run {
    pub(crate) fn new(options: Options, driver: Driver) -> Self {
        Self {
            options,
            driver,
            id: format!("{:08x}", fastrand::u32(..)),
            gone: OnceLock::new(),
        }
    }
}

/// The surroundings of one case.
pub(crate) struct Scene {
    run: Arc<Run>,
    /// Distinguishes this case from the others of the run.
    label: String,
    names: usize,
    ledger: Ledger,
    places: Places,
}

impl Scene {
    pub(crate) fn new(run: &Arc<Run>, number: usize) -> Self {
        let options = &run.options;
        let label = format!("{}-{}-{number}", options.name_prefix, run.id);
        Self {
            run: run.clone(),
            names: 0,
            ledger: Ledger::default(),
            places: Places::new(options.places.clone(), label.clone()),
            label,
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.run.options
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.run.driver
    }

    /// Does the driver advertise it?
    pub(crate) fn has(&self, need: Need) -> Checked<bool> {
        Ok(self.driver().facts.has(need)?)
    }

    /// A name that was not used before.
    pub(crate) fn new_name(&mut self) -> String {
        self.names += 1;
        format!("{}-{}", self.label, self.names)
    }

    /// A new name of the greatest length.
    pub(crate) fn longest_name(&mut self) -> String {
        let name = self.new_name();
        let padding = LONGEST_NAME - name.len() - 1;
        format!("{name}-{}", "x".repeat(padding))
    }

    /// A volume id of a usual form that no volume has.
    pub(crate) fn unknown_volume(&mut self) -> String {
        format!("fake-vol-id-{}", self.new_name())
    }

    /// A snapshot id of a usual form that no snapshot has.
    pub(crate) fn unknown_snapshot(&mut self) -> String {
        format!("fake-snapshot-id-{}", self.new_name())
    }

    /// A node id of a usual form that no node has.
    pub(crate) fn unknown_node(&mut self) -> String {
        format!("fake-node-id-{}", self.new_name())
    }

    /// The id of the node whose endpoint we have.
    pub(crate) fn node_id(&self) -> Checked<String> {
        Ok(self.driver().facts.node_info()?.node_id.clone())
    }

    /// For a volume that is to be used on this node. Nothing if the driver does not care about places.
    fn on_this_node(&self) -> Checked<Option<TopologyRequirement>> {
        if !self.has(Need::Plugin(Service::VolumeAccessibilityConstraints))? {
            return Ok(None);
        }
        let topology = &self.driver().facts.node_info()?.accessible_topology;
        Ok(topology.as_ref().map(|here| TopologyRequirement {
            requisite: vec![here.clone()],
            preferred: vec![here.clone()],
        }))
    }

    /// How volumes are used, unless a case is about something else.
    pub(crate) fn capability(&self) -> VolumeCapability {
        self.capability_for(Mode::SingleNodeWriter)
    }

    pub(crate) fn capability_for(&self, mode: Mode) -> VolumeCapability {
        let access_type = match self.options().access_type {
            AccessType::Mount => volume_capability::AccessType::Mount(MountVolume::default()),
            AccessType::Block => volume_capability::AccessType::Block(BlockVolume {}),
        };
        VolumeCapability {
            access_type: Some(access_type),
            access_mode: Some(AccessMode { mode: mode.into() }),
        }
    }

    /// What is at a path on the node.
    pub(crate) async fn look(&self, path: &str) -> Checked<Found> {
        Ok(self.places.look(path).await?)
    }

    /// The staging directory of this case.
    pub(crate) async fn staging(&mut self) -> Checked<String> {
        Ok(self.places.staging().await?)
    }

    /// A target path whose parent exists.
    pub(crate) async fn target(&mut self, name: &str) -> Checked<String> {
        Ok(self.places.target(name).await?)
    }

    /// Removes everything the case made, last first; gives what could not be removed.
    pub(crate) async fn clean_up(&mut self) -> Vec<Failure> {
        let mut failures = self.undo_all().await;
        failures.extend(self.places.remove().await);
        failures
    }
}

/// At least this many bytes.
pub(crate) fn at_least(bytes: i64) -> CapacityRange {
    CapacityRange {
        required_bytes: bytes,
        limit_bytes: 0,
    }
}

/// This many bytes and no other number.
pub(crate) fn exactly(bytes: i64) -> CapacityRange {
    CapacityRange {
        required_bytes: bytes,
        limit_bytes: bytes,
    }
}
