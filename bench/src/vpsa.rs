//! `./x bench vpsa`: the VPSA driver with its control plane beside simulated arrays that take their time.
//!
//! | file | holds |
//! |---|---|
//! | [`stage`] | arrays, API server, driver |
//! | [`bare`] | the ceiling: a client that asks the arrays no more than anybody must |
//! | [`asked`] | what the arrays were asked, by their own count |

mod asked;
mod bare;
mod stage;

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use stowage_csi::proto::csi::DeleteVolumeRequest;
use stowage_csi::proto::csi::volume_capability::access_mode::Mode;
use tokio::time::sleep;

use self::asked::Asked;
use self::bare::Bare;
use self::stage::{Arrays, Stage};
use crate::csi::{self, Controller, SIZE};
use crate::latency::Latency;
use crate::memory::Most;
use crate::rest::{many, until_quiet, written};
use crate::say;
use crate::table::{Goal, Row, Table};

/// How many requests make a volume: create it, look where it is.
const FEWEST_TO_MAKE: f64 = 2.0;
/// How many requests delete one: delete it, take it out of the recycle bin.
const FEWEST_TO_DELETE: f64 = 2.0;
/// How long any part of it may take.
const PATIENCE: Duration = Duration::from_secs(900);

/// The VPSA driver: volumes over several arrays, what the arrays are asked for them and at rest, and memory
///
/// Arrays are simulated, in this process, and count what they are asked; the driver is a process of its own, as is the API
/// server. A bare client makes and deletes as many volumes on the same arrays first, with the fewest requests that can do it:
/// what it reaches is the ceiling.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  ./x bench vpsa                                      about seven minutes, five of them at rest
  ./x bench vpsa --volumes 100 --steady 0             what a volume costs, and nothing else
  ./x bench vpsa --latency 0                          arrays that answer at once: our own part")]
pub struct Args {
    /// Volumes that are made and deleted
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub volumes: usize,
    /// Arrays that they are spread over
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub arrays: usize,
    /// How long an array takes for an answer
    #[arg(long, value_name = "MS", default_value_t = 50)]
    pub latency: u64,
    /// Calls at the same time, of the driver and of the bare client
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub clients: usize,
    /// Volumes that there are in steady state; none is measured with 0
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub steady: usize,
    /// Seconds of steady state
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub rest: u64,
}

/// Measures, prints what is found, and returns it.
pub async fn run(stowage: &Path, args: &Args) -> anyhow::Result<Vec<Table>> {
    ensure!(args.volumes > 0, "--volumes must be at least 1");
    ensure!(args.arrays > 0, "--arrays must be at least 1");
    ensure!(args.clients > 0, "--clients must be at least 1");
    let arrays = Arrays::start(args.arrays).await?;
    let names: Vec<String> = (0..args.volumes).map(|it| format!("pvc-{it}")).collect();
    let bare = bare(&arrays, args, &names).await?;
    let stage = Stage::set(stowage, arrays).await?;
    let idle = stage.driver.memory()?;
    let controller = csi::connect(&stage.socket())?.0;
    stage.arrays.set_latency(args.latency).await?;

    let mut volumes = Table::new(format!(
        "{} volumes over {} arrays that answer after {} ms, {} calls at a time",
        args.volumes, args.arrays, args.latency, args.clients
    ));
    make(&stage, &controller, args, &names, &bare.made, &mut volumes).await?;
    let mut rest = Table::new(format!("{} volumes in steady state", args.steady));
    if args.steady > 0 {
        fill(&stage, &controller, args).await?;
        steady_state(&stage, args, &mut rest).await?;
    }
    delete(
        &stage,
        &controller,
        args,
        &names,
        &bare.deleted,
        &mut volumes,
    )
    .await?;
    idle.add_to(&mut rest, "idle", Most::default());
    let tables = vec![volumes, rest];
    stage.driver.stop().await?;
    for table in &tables {
        say(&format!("{table}\n"));
    }
    Ok(tables)
}

/// What the bare client took.
struct Ceiling {
    made: Latency,
    deleted: Latency,
}

async fn bare(arrays: &Arrays, args: &Args, names: &[String]) -> anyhow::Result<Ceiling> {
    let bare = Bare::connect(arrays).await?;
    arrays.set_latency(args.latency).await?;
    let numbered = || names.iter().enumerate();
    let made = Latency::measure(numbered(), args.clients, |(number, name)| {
        bare.make(number, name)
    });
    let made = made.await?;
    let deleted = Latency::measure(numbered(), args.clients, |(number, name)| {
        bare.delete(number, name)
    });
    let deleted = deleted.await?;
    arrays.set_latency(0).await?;
    Ok(Ceiling { made, deleted })
}

async fn create(controller: &Controller, name: &str) -> anyhow::Result<()> {
    let request = csi::volume(name, SIZE, Mode::MultiNodeMultiWriter);
    csi::create(controller, request).await.map(drop)
}

async fn make(
    stage: &Stage,
    controller: &Controller,
    args: &Args,
    names: &[String],
    bare: &Latency,
    table: &mut Table,
) -> anyhow::Result<()> {
    let (before, begin) = (stage.arrays.asked().await?, stage.audit.end());
    let made = Latency::measure(names, args.clients, |name| create(controller, name)).await?;
    let asked = stage.arrays.asked().await?.since(&before);
    add_calls(table, "made", args, [&made, bare], &asked, FEWEST_TO_MAKE);
    let requests = until_quiet(stage, begin, PATIENCE).await?;
    say(&format!("API requests for them: {}", requests.summary()));
    let writes = many(written(&requests)) / many(args.volumes);
    table.add(Row::new("made: API writes each, events included", writes));
    let most = many(stage.arrays.volumes().await?.into_iter().max().unwrap_or(0));
    let even = many(args.volumes) / many(args.arrays);
    let row = Row::new("made: volumes on the fullest array", most);
    table.add(row.beside("spread evenly", even));
    Ok(())
}

async fn delete(
    stage: &Stage,
    controller: &Controller,
    args: &Args,
    names: &[String],
    bare: &Latency,
    table: &mut Table,
) -> anyhow::Result<()> {
    let before = stage.arrays.asked().await?;
    let deleted = Latency::measure(names, args.clients, |name| {
        let request = DeleteVolumeRequest {
            volume_id: name.clone(),
            ..DeleteVolumeRequest::default()
        };
        csi::delete(controller, request)
    });
    let deleted = deleted.await?;
    let asked = stage.arrays.asked().await?.since(&before);
    let fewest = FEWEST_TO_DELETE;
    add_calls(table, "deleted", args, [&deleted, bare], &asked, fewest);
    Ok(())
}

/// Adds what calls took, beside the bare client.
fn add_calls(
    table: &mut Table,
    done: &str,
    args: &Args,
    [driver, bare]: [&Latency; 2],
    asked: &Asked,
    fewest: f64,
) {
    let volumes = args.volumes;
    say(&format!("requests for {volumes} {done}: {asked}"));
    let seconds = |latency: &Latency| many(volumes) / latency.per_second();
    let row = Row::new(format!("{done}: all of them, s"), seconds(driver));
    table.add(row.beside("bare client", seconds(bare)));
    let each = many(asked.about_volumes()) / many(volumes);
    let row = Row::new(format!("{done}: array requests each"), each);
    table.add(row.beside("fewest", fewest).goal(Goal::AtMost(1.55)));
    let row = Row::new(format!("{done}: p50, ms"), driver.percentile(50));
    table.add(row.beside("bare client", bare.percentile(50)));
    let row = Row::new(format!("{done}: p99, ms"), driver.percentile(99));
    table.add(row.beside("bare client", bare.percentile(99)));
}

/// Makes as many volumes as there are to be in steady state, quickly.
async fn fill(stage: &Stage, controller: &Controller, args: &Args) -> anyhow::Result<()> {
    stage.arrays.set_latency(0).await?;
    let more = (args.volumes..args.steady.max(args.volumes)).map(|it| format!("pvc-{it}"));
    Latency::measure(more, args.clients, |name| async move {
        create(controller, &name).await
    })
    .await?;
    stage.arrays.set_latency(args.latency).await?;
    // What they told of so many new volumes is written.
    stage.until_counted(args.steady.max(args.volumes)).await?;
    until_quiet(stage, stage.audit.end(), PATIENCE).await?;
    Ok(())
}

async fn steady_state(stage: &Stage, args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let (before, begin) = (stage.arrays.asked().await?, stage.audit.end());
    sleep(Duration::from_secs(args.rest)).await;
    let asked = stage.arrays.asked().await?.since(&before);
    say(&format!("requests in {} s of rest: {asked}", args.rest));
    let minutes = many(usize::try_from(args.rest)?) / 60.0;
    let each = many(asked.count()) / many(args.arrays) / minutes;
    table.add(Row::new("requests per minute of each array", each));
    let requests = stage.audit.since(begin)?;
    let row = Row::new("API writes meanwhile", many(written(&requests)));
    table.add(row.goal(Goal::AtMost(0.0)));
    table.add(Row::new("API reads meanwhile", many(requests.reads())));
    let memory = stage.driver.memory()?;
    memory.add_to(table, "in steady state", Most::default());
    Ok(())
}
