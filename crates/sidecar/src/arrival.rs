//! Kinds that are installed while we run: snapshots and their groups, of which no server has the definitions of its
//! own.
//!
//! Only a watch of all definitions would tell, and upstream's roles do not allow it. So the server is asked for its
//! list of groups, ever more seldom, and no more once they are there.

use std::time::Duration;

use stowage_api::snapshot::names::{GROUP_SNAPSHOT, SNAPSHOT};
use stowage_kubernetes::discovery::{first_of, group_versions};
use stowage_kubernetes::patience::patiently;
use stowage_kubernetes::queue::Backoff;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Kinds, Versions};
use crate::role::Context;

/// Soon after the start, because manifests are often applied in one go, and later rarely.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(2),
    longest: Duration::from_secs(60),
};

/// Kinds that come together, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    versions: &'static [&'static str],
    snapshots: bool,
}

pub(crate) const SINGLE: Late = Late {
    versions: SNAPSHOT.versions,
    snapshots: true,
};
pub(crate) const GROUPS: Late = Late {
    versions: GROUP_SNAPSHOT.versions,
    snapshots: false,
};

/// Waits until the server has these kinds, and then until all of their objects are known. Returns group and version;
/// `None`: asked to stop.
pub(crate) async fn wait(
    context: &Context,
    late: Late,
    stop: &CancellationToken,
) -> Option<&'static str> {
    let ask = || async {
        let found = group_versions(&context.client).await.ok();
        let version = found.and_then(|found| first_of(&found, late.versions));
        // A server that is away is told of by the watches.
        version.ok_or_else(String::new)
    };
    let version = patiently(stop, PAUSES, ask, |_| {}).await?;
    tracing::info!(kinds = version, "Kinds have been installed.");
    let kinds = Kinds {
        snapshots: late.snapshots,
        group_snapshots: !late.snapshots,
        ..Kinds::default()
    };
    let versions = Versions {
        group_snapshots: (!late.snapshots).then_some(version),
        ..Versions::default()
    };
    let cluster = &context.cluster;
    cluster.start_more(&context.watcher, kinds, versions, stop);
    let known = cluster.synced(kinds);
    stop.run_until_cancelled(known).await.map(|()| version)
}
