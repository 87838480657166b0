//! Watches everything that matters to an instance, and reconciles it when something changes.

use std::convert::Infallible;
use std::sync::Arc;

use futures::stream::select_all;
use futures::{FutureExt, StreamExt};
use kube::runtime::controller::{Config, applier};
use kube::runtime::reflector::{self, Store};
use stowage_kubernetes::discovery::ServerError;
use tokio_util::sync::CancellationToken;

use super::context::{Context, Guarded, Operator};
use super::missing_rights::show_missing_rights;
use super::{reconcile, triggers};
use crate::changes::changes;
use crate::writer::Writer;

/// Instances that are handled at the same time.
const CONCURRENCY: u16 = 8;

/// Keeps all instances as described until `shutdown`.
pub async fn run(operator: Operator, shutdown: CancellationToken) -> Result<(), ServerError> {
    let (client, rights, events) = (
        operator.client.clone(),
        operator.rights.clone(),
        operator.events.clone(),
    );
    let cluster = operator.cluster.clone();
    let writer = Writer::connect(client.clone(), cluster.served()).await?;
    let versions = writer.versions();
    let watching = cluster.watch(client.clone(), &rights);
    let work = async {
        let (instances, store) = reflector::store();
        let metrics = operator.metrics.clone();
        let config = operator.config.clone();
        let context = Arc::new(Context::new(operator, writer, instances.clone()));
        let queue = select_all([
            triggers::own(store, &client, &rights, metrics),
            context.rollouts.turns().boxed(),
            triggers::around(&instances, &client, versions, &cluster, &rights),
            triggers::everybody(rights.changes(), &instances),
            triggers::everybody(changes(config), &instances),
        ]);
        tokio::select! {
            () = cluster.until_read() => {}
            () = show_missing_rights(&context) => {}
            () = shutdown.cancelled() => return,
        }
        let working = applier(
            |instance, context| reconcile(instance, context).boxed(),
            |_, error: &Infallible, _| match *error {},
            context,
            instances.clone(),
            queue
                .map(Ok::<_, Infallible>)
                .take_until(shutdown.clone().cancelled_owned()),
            Config::default().concurrency(CONCURRENCY),
        );
        // Instances that went while they waited for their turn are no news.
        let working = working.for_each(|_| std::future::ready(()));
        tokio::select! {
            () = working => {}
            () = nothing_to_finish(&instances, &shutdown) => {}
        }
    };
    // Events outlive the work, which publishes them to the last.
    let the_end = CancellationToken::new();
    let until_the_end = async {
        tokio::select! {
            () = watching => {}
            () = work => {}
        }
        the_end.cancel();
    };
    tokio::join!(until_the_end, events.run(the_end.clone()));
    Ok(())
}

/// Returns at shutdown if no instance was ever read, such as where their definition is missing: the controller begins, and
/// ends, only after its first list.
async fn nothing_to_finish(instances: &Store<Guarded>, shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    if instances.wait_until_ready().now_or_never().is_some() {
        std::future::pending::<()>().await;
    }
}
