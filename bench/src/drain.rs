//! `./x bench drain`: a driver on many nodes is updated with `nodeUpdateStrategy: Draining`, on a control plane of its own.
//!
//! | file | holds |
//! |---|---|
//! | [`stage`] | control plane, nodes, the instance, pods that use it |
//! | [`kubelets`] | what kubelets, attacher and scheduler would do, at once |
//! | [`sidecars`] | what sidecars of nodes would tell about mounts |
//! | [`bare`] | the floor: a client that empties nodes one after the other with the fewest requests |

mod bare;
mod kubelets;
mod sidecars;
mod stage;

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use tokio::time::{Instant, sleep};

use self::kubelets::Kubelets;
use self::stage::Stage;
use crate::memory::Most;
use crate::process::Process;
use crate::rest::{many, until_quiet, written};
use crate::say;
use crate::table::{Goal, Row, Table};

/// How long any part of it may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How many nodes the bare client empties at most.
const BARE: usize = 50;

/// A driver that is updated node by node: time and requests for each node, beside a bare client
///
/// The operator is a process of its own, as is the control plane, which is one of this run. What kubelets and the scheduler
/// do is played, and takes them no time: what is left is what the operator adds. Every node has a pod that uses the
/// driver and is evicted, a volume that is attached for it, and a sidecar that is asked what is mounted.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Nodes, each with a pod that uses the driver
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub nodes: usize,
}

/// Measures, prints what is found, and returns it.
pub async fn run(stowage: &Path, args: &Args) -> anyhow::Result<Table> {
    ensure!(args.nodes > 1, "--nodes must be at least 2");
    let stage = Stage::set(args.nodes).await?;
    let _kubelets = Kubelets::start(stage.pods(), stage.attachments());
    let operator = Process::start(stowage, &stage.cluster.arguments()).await?;
    stage.until_complete(args.nodes, PATIENCE).await?;
    operator.stop().await?;
    let sidecars = stage.sidecars().await?;

    // While nobody else looks at the driver's pods.
    let nodes = args.nodes.min(BARE);
    let bare = stage.empty_by_hand(nodes).await? / u32::try_from(nodes)?;
    stage.add_users(0..nodes).await?;

    let operator = Process::start(stowage, &stage.cluster.arguments()).await?;
    let begin = stage.cluster.audit.end();
    until_quiet(&stage.cluster, begin, PATIENCE).await?;
    let update = update(&stage, args.nodes).await?;
    let mut table = Table::new(format!("a driver on {} nodes, one at a time", args.nodes));
    update.add_to(&mut table, bare);
    let asked = many(sidecars.asked()) / many(args.nodes);
    table.add(Row::new("questions what is mounted for each node", asked));
    operator
        .memory()?
        .add_to(&mut table, "afterwards", Most::default());
    operator.stop().await?;
    say(&format!("{table}\n"));
    Ok(table)
}

/// What one half of an update took for each node.
struct Half {
    each: Duration,
    reads: f64,
    writes: f64,
}

struct Update([Half; 2]);

/// Changes the driver's pod, and waits until every node has the new one.
async fn update(stage: &Stage, nodes: usize) -> anyhow::Result<Update> {
    stage.change_template().await?;
    let first = half(stage, 0, nodes / 2).await?;
    let second = half(stage, nodes / 2, nodes).await?;
    Ok(Update([first, second]))
}

/// From so many updated nodes to so many.
async fn half(stage: &Stage, from: usize, until: usize) -> anyhow::Result<Half> {
    let (started, begin) = (Instant::now(), stage.cluster.audit.end());
    while stage.updated().await? < until {
        let is_late = started.elapsed() > PATIENCE;
        ensure!(!is_late, "the update does not get to {until} nodes");
        sleep(Duration::from_millis(20)).await;
    }
    let (took, requests) = (started.elapsed(), stage.cluster.audit.since(begin)?);
    say(&format!("requests of the operator: {}", requests.summary()));
    let count = until - from;
    Ok(Half {
        each: took / u32::try_from(count)?,
        reads: many(requests.reads()) / many(count),
        writes: many(written(&requests)) / many(count),
    })
}

impl Update {
    fn add_to(&self, table: &mut Table, bare: Duration) {
        let Self([first, second]) = self;
        let ms = |it: Duration| it.as_secs_f64() * 1000.0;
        let row = Row::new("ms for each node", ms(second.each));
        table.add(row.beside("bare client", ms(bare)));
        let beyond = second.each.saturating_sub(bare);
        let row = Row::new("of it beyond eviction and start of pods, ms", ms(beyond));
        table.add(row);
        let row = Row::new("the second half: ms for each node", ms(second.each));
        let row = row.beside("the first half", ms(first.each));
        table.add(row.goal(Goal::AtMost(1.2)));
        let row = Row::new("API writes for each node, events included", second.writes);
        let row = row.beside("the first half", first.writes);
        table.add(row.goal(Goal::AtMost(1.2)));
        let row = Row::new("API reads for each node", second.reads);
        let row = row.beside("the first half", first.reads);
        table.add(row.goal(Goal::AtMost(1.2)));
    }
}
