//! `./x bench weka`: the Weka driver beside a simulated array that answers at once, and one that takes its time.
//!
//! | file | holds |
//! |---|---|
//! | [`stage`] | the array, its files on this machine, the driver |
//! | [`backing`] | what the volumes are: directories, snapshots, filesystems |
//! | [`calls`] | what a cluster asks of the driver |
//! | [`bare`] | the ceiling: a client that does what no driver can do without |
//! | [`seen`] | what the array was asked, by its own count |
//! | [`round`] | what is measured with one latency |

mod backing;
mod bare;
mod calls;
mod round;
mod seen;
mod stage;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;

pub use self::backing::Backing;
use self::calls::Calls;
use self::stage::Stage;
use crate::memory::{Memory, Most};
use crate::say;
use crate::table::{Goal, Row, Table};

/// Our own part of a call should stay below this, in seconds; a bucket of the driver's histogram.
const OVERHEAD: f64 = 0.005;

/// The Weka driver: create, publish, unpublish and delete beside a simulated array, and its memory
///
/// Array, its files (FUSE) and driver are processes of this run, with mounts that nobody else sees. Needs root. A bare
/// client does the same on the same array first, with nothing but the steps that no driver can do without: what it reaches is
/// the ceiling. The array itself counts what it is asked.
///
/// With a latency every answer of the array comes that much later, and what counts is how often the driver asks.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  ./x bench weka                                  about a minute
  ./x bench weka --latency 20 --volumes 100       a slow array only, and little of it
  ./x bench weka --latency 0 --clients 1          one call at a time: what a call costs
  ./x bench weka --backing snapshot               volumes that are writable snapshots
  ./x bench weka --backing filesystem             volumes that are filesystems, of which a cluster has room for fewer")]
pub struct Args {
    /// What the volumes are
    #[arg(long, value_enum, default_value_t = Backing::Directory)]
    pub backing: Backing,
    /// Volumes of each round: each is made, published, unpublished and deleted [default: 800, or 60 filesystems]
    #[arg(long, value_name = "N")]
    pub volumes: Option<usize>,
    /// Calls at the same time, of the driver and of the bare client
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub clients: usize,
    /// How long the array takes for an answer, a round for each
    #[arg(
        long,
        value_name = "MS,MS",
        value_delimiter = ',',
        default_value = "0,20"
    )]
    pub latency: Vec<u64>,
    /// Seconds of rest before memory is looked at
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub rest: u64,
    /// Directory to work in; the array's files are on its disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub directory: PathBuf,
}

impl Args {
    fn volumes(&self) -> usize {
        self.volumes.unwrap_or(match self.backing {
            Backing::Directory | Backing::Snapshot => 800,
            Backing::Filesystem => 60,
        })
    }
}

/// Measures, prints what is found, and returns it. The caller has mounts of its own.
pub async fn run(stowage: &Path, simulator: &Path, args: &Args) -> anyhow::Result<Vec<Table>> {
    ensure!(args.volumes() > 0, "--volumes must be at least 1");
    ensure!(args.clients > 0, "--clients must be at least 1");
    let rest = Duration::from_secs(args.rest);
    let stage = Stage::set(stowage, simulator, &args.directory).await?;
    tokio::time::sleep(rest).await;
    let idle = stage.driver.memory()?;

    let calls = Calls::connect(&stage, args.backing)?;
    warm_up(&calls).await?;
    let mut tables = Vec::new();
    let mut show = |table: Table| {
        say(&format!("{table}\n"));
        tables.push(table);
    };
    for latency in &args.latency {
        show(round::measure(&stage, &calls, args, *latency).await?);
    }
    show(own_parts(&stage).await?);
    tokio::time::sleep(rest).await;
    show(memory(idle, stage.driver.memory()?));
    stage.end().await?;
    Ok(tables)
}

/// The first call logs in and mounts.
async fn warm_up(calls: &Calls) -> anyhow::Result<()> {
    let id = calls.create("first").await?;
    calls.publish(&id).await?;
    calls.unpublish(&id).await?;
    calls.delete(&id).await
}

fn memory(idle: Memory, loaded: Memory) -> Table {
    let mut table = Table::new("the driver's memory");
    idle.add_to(&mut table, "idle", Most::default());
    loaded.add_to(&mut table, "after it all", Most::default());
    table
}

async fn own_parts(stage: &Stage) -> anyhow::Result<Table> {
    let most = OVERHEAD * 1000.0;
    let mut table = Table::new(format!("share of calls whose own part is <= {most} ms"));
    for method in [
        "CreateVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "DeleteVolume",
    ] {
        let (within, all) = stage.driver.overhead_within(method, OVERHEAD).await?;
        table.add(Row::new(method, within / all.max(1.0)).goal(Goal::AtLeast(0.99)));
    }
    Ok(table)
}
