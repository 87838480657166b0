//! `./x bench operator`: the operator with many instances that wait when it starts, on a control plane of its own.
//!
//! | file | holds |
//! |---|---|
//! | [`stage`] | control plane, instances, and how the operator is started |
//!
//! There are no kubelets: what is measured is what the operator and the API server do.

mod stage;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use tokio::time::{Instant, sleep};

use self::stage::{NAMESPACE, Stage, instance_name};
use crate::memory::Most;
use crate::process::Process;
use crate::rest::{at_rest, many, until_quiet};
use crate::say;
use crate::table::{Goal, Row, Table};

/// How many DaemonSets are deleted, one after the other.
const DELETED: usize = 10;
/// What memory it may have.
const MOST: Most = Most {
    working_set: Some(40.0),
    anonymous: None,
};
/// How long any part of it may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// The operator: instances that wait when it starts, memory, rest, and repair
///
/// The operator is a process of its own, as is the control plane, which is one of this run and has no kubelets. Requests
/// are counted in the API server's audit log.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// CSIDriverDeployments that wait when the operator starts
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub drivers: usize,
    /// StorageClasses of each
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub classes: usize,
    /// Nodes whose kubelets say that they have all of the drivers; there are no kubelets
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub nodes: usize,
    /// Seconds of rest in which nothing may be written
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub rest: u64,
}

/// Measures, prints what is found, and returns it.
pub async fn run(stowage: &Path, args: &Args) -> anyhow::Result<Table> {
    ensure!(args.drivers > 0, "--drivers must be at least 1");
    let stage = Stage::set(args).await?;
    let begin = stage.cluster.audit.end();
    let operator = Process::start(stowage, &stage.cluster.arguments()).await?;
    stage.until_synced(args.drivers, PATIENCE).await?;
    let converged = operator.started().elapsed();
    let requests = until_quiet(&stage.cluster, begin, PATIENCE).await?;
    say(&format!("requests of the operator: {}", requests.summary()));

    let mut table = Table::new(format!(
        "{} drivers with {} classes each, on {} nodes",
        args.drivers, args.classes, args.nodes
    ));
    let row = Row::new("start to all in effect, s", converged.as_secs_f64());
    table.add(row);
    let objects = stage.objects().await? + args.drivers;
    table.add(Row::new("objects, with the instances", many(objects)));
    let writes = requests.writes().saturating_sub(requests.lease_writes());
    let row = Row::new(
        "API writes without events per object",
        many(writes) / many(objects),
    );
    table.add(row);
    let row = Row::new(
        "dry runs per object",
        many(requests.dry_runs()) / many(objects),
    );
    table.add(row);
    table.add(Row::new(
        "API reads per object",
        many(requests.reads()) / many(objects),
    ));
    at_rest(&stage.cluster, Duration::from_secs(args.rest), &mut table).await?;
    operator.memory()?.add_to(&mut table, "at rest", MOST);
    let slowest = repair(&stage, args.drivers.min(DELETED)).await?;
    let row = Row::new(
        "a deleted DaemonSet is back, slowest, s",
        slowest.as_secs_f64(),
    );
    table.add(row.goal(Goal::AtMost(1.0)));
    operator.stop().await?;
    say(&format!("{table}\n"));
    Ok(table)
}

/// Deletes DaemonSets one after the other; the longest time until one was back.
async fn repair(stage: &Stage, count: usize) -> anyhow::Result<Duration> {
    let sets = Api::<DaemonSet>::namespaced(stage.cluster.admin.clone(), NAMESPACE);
    let mut slowest = Duration::ZERO;
    for number in 0..count {
        let name = format!("{}-node", instance_name(number));
        let uid = sets.get(&name).await?.uid().context("no uid")?;
        let started = Instant::now();
        sets.delete(&name, &DeleteParams::background()).await?;
        loop {
            let found = sets.get_opt(&name).await?;
            if found.is_some_and(|found| found.uid().is_some_and(|new| new != uid)) {
                break;
            }
            ensure!(
                started.elapsed() < PATIENCE,
                "DaemonSet {name} does not come back"
            );
            sleep(Duration::from_millis(2)).await;
        }
        slowest = slowest.max(started.elapsed());
    }
    Ok(slowest)
}
