//! Runs the operator as a service: logs, metrics, health, the lease and the configuration around its reconciles.

use anyhow::bail;
use stowage_kubernetes::discovery::ServerError;
use stowage_kubernetes::events::Events;
use stowage_operator::cluster::Cluster;
use stowage_operator::config::ConfigSource;
use stowage_operator::driver_deployment::{self, EVENT_COMPONENT, Operator};
use stowage_operator::metrics::OperatorMetrics;
use stowage_operator::mounts::Mounts;
use stowage_operator::rights::Rights;
use stowage_operator::uninstall::{self, RunningOperator};
use stowage_operator::weka;
use stowage_service::{Elections, Process, Service, client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::args::OperatorArgs;
use crate::output;

/// The lease of the operator; the original locked a ConfigMap of this name.
const LEASE: &str = "csi-operator-leader";

/// Runs until SIGTERM, or until the lease is lost.
pub async fn run(args: OperatorArgs) -> anyhow::Result<()> {
    if args.prepare_uninstall {
        return prepare_uninstall(&args).await;
    }
    let service = Service::start(&args.service)?;
    let configured = service.health().check("configuration");
    configured.not_ready("not read yet");
    let kube = args.kube.config().await?;
    let source = source(&args, &kube);
    let elections = Elections::new(kube.clone(), &args.lease, service.metrics())?;
    let metrics = OperatorMetrics::register(service.metrics());
    let namespace = namespace(&args, &kube);
    let evictions = client::connect_without_retry(kube.clone())?;
    let client = client::connect(kube)?;
    let mounts = Mounts::new(client.clone(), &namespace);
    let events = Events::new(client.clone(), EVENT_COMPONENT, service.metrics());
    let rights = Rights::default();
    let allowed = service.health().check("rights");
    let (process, shutdown) = (service.process(), service.shutdown());
    let work = async move {
        let config = source.load(&client).await?;
        // Whether this process leads or not: a standby is as ready as a leader.
        configured.ready();
        let (sender, receiver) = watch::channel(config);
        let operator = Operator {
            client: client.clone(),
            evictions,
            config: receiver,
            metrics: metrics.clone(),
            events,
            rights: rights.clone(),
            cluster: Cluster::default(),
            mounts,
            namespace,
            max_concurrent_rollouts: args.max_concurrent_rollouts.get(),
        };
        let lead = elections.lead(LEASE, &shutdown, |lost| {
            reconcile(operator, &process, &shutdown, lost)
        });
        tokio::select! {
            () = source.follow(client.clone(), &sender) => {}
            // Also in a standby: as a leader it would need them at once.
            () = rights.keep(client.clone(), &allowed, &metrics) => {}
            ended = lead => {
                ended?.transpose()?;
            }
        }
        anyhow::Ok(())
    };
    // Boxed: the watches of a dozen kinds make it large.
    Ok(service.run(Box::pin(work)).await?)
}

/// Leaves nothing behind that would wait for an operator.
async fn prepare_uninstall(args: &OperatorArgs) -> anyhow::Result<()> {
    let kube = args.kube.config().await?;
    let client = client::connect(kube)?;
    if let Some(operator) = uninstall::running_operator(&client, LEASE).await? {
        let RunningOperator { holder, namespace } = operator;
        bail!(
            "an operator is running (`{holder}` holds the lease `{namespace}/{LEASE}`): delete its Deployment first, or it puts \
             its finalizers back"
        );
    }
    let released = uninstall::let_go(&client).await?;
    let lines = released.iter();
    let lines = lines.map(|title| format!("{title} no longer waits for the operator.\n"));
    output::print(&lines.collect::<String>())?;
    if released.is_empty() {
        output::print("Nothing waits for the operator.\n")?;
    }
    Ok(())
}

/// Reconciles until the shutdown, or until the lease is lost.
async fn reconcile(
    operator: Operator,
    process: &Process,
    shutdown: &CancellationToken,
    lost: CancellationToken,
) -> Result<(), ServerError> {
    let stop = shutdown.child_token();
    let give_up = async {
        lost.cancelled().await;
        stop.cancel();
        std::future::pending::<()>().await;
    };
    let weka = weka::run(operator.clone(), process, stop.clone());
    let drivers = driver_deployment::run(operator, stop.clone());
    tokio::select! {
        result = async { tokio::try_join!(drivers, weka) } => result.map(|_| ()),
        () = give_up => Ok(()),
    }
}

/// The operator's own.
fn namespace(args: &OperatorArgs, kube: &kube::Config) -> String {
    let given = args.lease.leader_election_namespace.clone();
    given.unwrap_or_else(|| kube.default_namespace.clone())
}

fn source(args: &OperatorArgs, kube: &kube::Config) -> ConfigSource {
    match (&args.config, &args.config_map) {
        (Some(file), _) => ConfigSource::File(file.clone()),
        (None, Some(name)) => ConfigSource::ConfigMap {
            namespace: namespace(args, kube),
            name: name.clone(),
        },
        (None, None) => ConfigSource::Defaults,
    }
}
