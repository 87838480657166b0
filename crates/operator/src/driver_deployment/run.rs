//! Watches everything that matters to an instance, and reconciles it when something changes.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::DynamicObject;
use kube::runtime::controller::{self, Config};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, ResourceExt};
use stowage_api::driver_deployment::{
    DAEMON_SET_LABEL, DEPLOYMENT_LABEL, OWNER_NAME_LABEL, OWNER_NAMESPACE_LABEL, OWNER_UID_LABEL,
};
use stowage_kubernetes::answer;
use stowage_kubernetes::discovery::ServerError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::context::{Context, Guarded, Operator};
use super::missing_rights::show_missing_rights;
use super::reconcile;
use crate::changes::changes;
use crate::cluster::Cluster;
use crate::config::OperatorConfig;
use crate::driver::{BudgetVersion, Kind};
use crate::writer::Writer;

/// Changes that come together are handled together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Instances that are handled at the same time.
const CONCURRENCY: u16 = 8;

/// Keeps all instances as described until `shutdown`.
pub async fn run(operator: Operator, shutdown: CancellationToken) -> Result<(), ServerError> {
    let (client, rights, events) = (
        operator.client.clone(),
        operator.rights.clone(),
        operator.events.clone(),
    );
    let writer = Writer::connect(client.clone()).await?;
    let budget = writer.budget_version();
    let cluster = operator.cluster.clone();
    let watching = cluster.watch(client.clone(), &rights);
    let work = async {
        let controller = controller(&client, budget, &cluster, &operator.config)
            .reconcile_all_on(rights.changes());
        let instances = controller.store();
        let context = Context::new(operator, writer, instances.clone());
        let context = Arc::new(context);
        tokio::select! {
            () = cluster.until_read() => {}
            () = show_missing_rights(&context) => {}
            () = shutdown.cancelled() => return,
        }
        let working = controller
            .graceful_shutdown_on(shutdown.clone().cancelled_owned())
            .run(reconcile, |_, error, _| match *error {}, context)
            .for_each(|outcome| async {
                let Err(error) = outcome else { return };
                let told = answer::chain(&error);
                tracing::debug!(
                    error = told,
                    "A watch or queue was interrupted and is started again."
                );
                if let controller::Error::QueueError(error) = &error {
                    rights.recheck_if_forbidden(error);
                }
            });
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

fn controller(
    client: &Client,
    budget: BudgetVersion,
    cluster: &Cluster,
    config: &watch::Receiver<OperatorConfig>,
) -> Controller<Guarded> {
    let mut controller = Controller::new(
        Api::<Guarded>::all(client.clone()),
        watcher::Config::default(),
    )
    .with_config(
        Config::default()
            .debounce(DEBOUNCE)
            .concurrency(CONCURRENCY),
    )
    .reconcile_all_on(cluster.changes())
    .reconcile_all_on(changes(config.clone()));
    let owned = watcher::Config::default().labels(OWNER_UID_LABEL);
    for kind in Kind::ALL {
        // Where the cluster lacks them a watch would only fail; the facts about the cluster watch them too.
        if kind == Kind::VolumeSnapshotClass {
            continue;
        }
        let resource = kind.resource(budget);
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        controller =
            controller.watches_with(api, resource, owned.clone(), |child| owner_of(&child));
    }
    for (label, suffix) in [
        (DAEMON_SET_LABEL, "-node"),
        (DEPLOYMENT_LABEL, "-controller"),
    ] {
        let pods = watcher::Config::default().labels(label);
        let api = Api::<Pod>::all(client.clone());
        controller = controller.watches(api, pods, move |pod| owner_of_pod(&pod, label, suffix));
    }
    // A DaemonSet says only there why it has no pods, such as a quota or a policy that refuses them.
    let refused = "reason=FailedCreate,involvedObject.kind=DaemonSet";
    let refused = watcher::Config::default().fields(refused);
    controller.watches(Api::<Event>::all(client.clone()), refused, |event| {
        let set = event.involved_object;
        let name = set.name?.strip_suffix("-node")?.to_owned();
        Some(ObjectRef::new(&name).within(&set.namespace?))
    })
}

/// The instance that a child belongs to, by its labels.
fn owner_of(child: &DynamicObject) -> Option<ObjectRef<Guarded>> {
    let labels = child.labels();
    let (namespace, name) = (
        labels.get(OWNER_NAMESPACE_LABEL)?,
        labels.get(OWNER_NAME_LABEL)?,
    );
    Some(ObjectRef::new(name).within(namespace))
}

/// The instance that a pod belongs to: its label is the name of the workload.
fn owner_of_pod(pod: &Pod, label: &str, suffix: &str) -> Option<ObjectRef<Guarded>> {
    let workload = pod.labels().get(label)?;
    let name = workload.strip_suffix(suffix)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}
