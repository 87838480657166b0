//! Kinds that are installed while we run: snapshots and their groups, of which no server has the definitions of its
//! own.
//!
//! Only a watch of all definitions would tell, and upstream's roles do not allow it. So the server is asked for its
//! list of groups, ever more seldom, and no more once they are there.

use std::time::Duration;

use stowage_kubernetes::discovery::group_versions;
use stowage_kubernetes::patience::patiently;
use stowage_kubernetes::queue::Backoff;
use tokio_util::sync::CancellationToken;

use crate::cluster::Kinds;
use crate::role::Context;
use crate::server::{GROUP_SNAPSHOTS, SNAPSHOTS};

/// Soon after the start, because manifests are often applied in one go, and later rarely.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(2),
    longest: Duration::from_secs(60),
};

/// Kinds that come together, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    group_version: &'static str,
    snapshots: bool,
}

pub(crate) const SINGLE: Late = Late {
    group_version: SNAPSHOTS,
    snapshots: true,
};
pub(crate) const GROUPS: Late = Late {
    group_version: GROUP_SNAPSHOTS,
    snapshots: false,
};

/// Waits until the server has these kinds, and then until all of their objects are known. False: asked to stop.
pub(crate) async fn wait(context: &Context, late: Late, stop: &CancellationToken) -> bool {
    let ask = || async {
        match group_versions(&context.client).await {
            Ok(found) if found.contains(late.group_version) => Ok(()),
            // A server that is away is told of by the watches.
            Ok(_) | Err(_) => Err(String::new()),
        }
    };
    if patiently(stop, PAUSES, ask, |_| {}).await.is_none() {
        return false;
    }
    tracing::info!(kinds = late.group_version, "Kinds have been installed.");
    let kinds = Kinds {
        snapshots: late.snapshots,
        group_snapshots: !late.snapshots,
        ..Kinds::default()
    };
    context.cluster.start_more(&context.watcher, kinds, stop);
    let known = context.cluster.synced(kinds);
    stop.run_until_cancelled(known).await.is_some()
}
