//! The CSI services, and what they share.
//!
//! - `filesystem`: the filesystem a call is about; `volume`: what is known of a volume in it.
//! - `mounts`: filesystems mounted for our own use; `client`: the Weka client that mounts them; `nfs`: or NFS.
//! - `inventory`: all volumes, and how they are.
//! - `directory`: a volume's directory, reached by descriptors only; work on it runs where it may hang (`Workers`).
//! - `trash`: removes the data of deleted volumes.
//! - `promised`: how much of a filesystem its directories may use together.
//! - `room`: filesystems that grow for their volumes.
//! - `sources`: volumes that are being copied.
//! - `concurrency`: how many calls of a kind are worked on at a time.
//! - `identity`, `controller`, `node`: the services.
//!
//! State is in handles, on the array and in the kernel's table of mounts; nothing here must outlive the process.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use stowage_csi::locks::{VolumeGuard, VolumeLocks};
use stowage_host::mount::Mounter;
use stowage_host::stat::Stats;
use stowage_host::workers::Workers;
use stowage_kubernetes::events::Events;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status};

use crate::config::Config;
use crate::error::Error;
use crate::handle::Handle;
use crate::metrics::Metrics;
use crate::rest::{Clusters, Deadline};

pub(crate) mod client;
pub(crate) mod concurrency;
pub(crate) mod controller;
pub(crate) mod directory;
pub(crate) mod filesystem;
pub(crate) mod group;
pub(crate) mod inventory;
pub(crate) mod mounts;
pub(crate) mod nfs;
pub(crate) mod node;
pub(crate) mod promised;
pub(crate) mod room;
pub(crate) mod sources;
pub(crate) mod trash;
pub(crate) mod volume;

/// How much earlier than its caller a call gives up, so that the caller gets the reason.
const HEAD_START: Duration = Duration::from_millis(250);

/// How many threads may wait for one filesystem.
pub(crate) const MOST_THREADS: usize = 64;

/// The right to work on a volume, shared with threads that may outlive the call.
pub(crate) type Guard = Arc<VolumeGuard>;

/// One process of the driver.
pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) mounter: Arc<dyn Mounter>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) mounts: Arc<mounts::Mounts>,
    pub(crate) client: client::LocalClient,
    pub(crate) workers: Workers,
    pub(crate) locks: VolumeLocks,
    pub(crate) concurrency: concurrency::ConcurrencyLimits,
    pub(crate) trash: trash::Trash,
    pub(crate) promises: promised::Promises,
    pub(crate) growing: room::Growing,
    pub(crate) sources: sources::Sources,
    /// All volumes, where Kubernetes can be asked about them.
    pub(crate) inventory: Option<Arc<inventory::Inventory>>,
    pub(crate) metrics: Metrics,
    /// What Kubernetes calls the volumes here.
    pub(crate) names: node::names::KubernetesNames,
    /// Access to Kubernetes, where something needs it.
    pub(crate) kube: Option<kube::Client>,
    /// What users should know beside the result of a call.
    pub(crate) events: Option<Events>,
    /// Zone and region of this node.
    pub(crate) zones: BTreeMap<String, String>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl Driver {
    /// When the work for a request must be done.
    pub(crate) fn deadline<R>(&self, request: &Request<R>) -> Deadline {
        let asked = stowage_csi::deadline::of_request(request);
        let asked = asked.map(|time| time.saturating_sub(HEAD_START.min(time / 10)));
        Deadline::after(
            asked
                .unwrap_or(self.config.call_time)
                .min(self.config.call_time),
        )
    }
}

/// Answers a call within its time.
pub(crate) async fn answer<T>(
    deadline: Deadline,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<Response<T>, Status> {
    // Work that watches the clock itself can say what it waited for; it gets a moment to do so.
    match timeout(deadline.remaining() + HEAD_START / 2, work).await {
        Ok(done) => Ok(Response::new(done?)),
        Err(_) => Err(Error::DeadlineExceeded.into()),
    }
}

/// The handle of a volume that should exist: what cannot be a handle names none.
pub(crate) fn existing_handle(text: &str) -> Result<Handle, Error> {
    Handle::parse(text).map_err(|_| Error::VolumeMissing(text.to_owned()))
}
