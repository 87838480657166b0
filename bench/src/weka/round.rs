//! One round: volumes are made, published, unpublished and deleted, each step first by the bare client.

use std::future::Future;

use parking_lot::Mutex;

use super::Args;
use super::backing::Backing;
use super::bare::Bare;
use super::calls::Calls;
use super::seen::Seen;
use super::stage::Stage;
use crate::latency::Latency;
use crate::say;
use crate::table::{Goal, Row, Table};

/// What a call asks for now and then, and not because of itself: a token is renewed, a filesystem looked at again.
const NOW_AND_THEN: f64 = 0.1;

/// What happens to a volume, and what it should take.
#[derive(Clone, Copy)]
pub struct Step {
    /// What was done to it.
    pub done: &'static str,
    /// What the bare client does.
    pub least: &'static str,
    /// How many requests of the array should be enough.
    pub requests: f64,
}

/// What it took.
struct Taken {
    step: Step,
    bare: Latency,
    driver: Latency,
    /// The driver's requests.
    seen: Seen,
}

/// Measures with an array that takes `latency` milliseconds for an answer.
pub async fn measure(
    stage: &Stage,
    calls: &Calls,
    args: &Args,
    latency: u64,
) -> anyhow::Result<Table> {
    stage.control.turn(|knobs| knobs.latency = 0).await?;
    let bare = Bare::connect(stage, args.backing).await?;
    stage.control.turn(|knobs| knobs.latency = latency).await?;
    let steps = steps(stage, calls, &bare, args, latency).await?;
    bare.tidy().await?;
    if args.backing == Backing::Directory {
        stage.until_trash_is_empty().await?;
    }

    let speed = match latency {
        0 => "at once".to_owned(),
        latency => format!("after {latency} ms"),
    };
    let mut table = Table::new(format!("answers {speed}, {} clients", args.clients));
    for taken in &steps {
        taken.add_to(&mut table, args, latency);
    }
    Ok(table)
}

async fn steps(
    stage: &Stage,
    calls: &Calls,
    bare: &Bare,
    args: &Args,
    latency: u64,
) -> anyhow::Result<[Taken; 4]> {
    let names: Vec<String> = (0..args.volumes())
        .map(|number| format!("after-{latency}-{number}"))
        .collect();
    let (names, at_once) = (&names, args.clients);
    let [created, published, unpublished, deleted] = args.backing.steps();
    let ids = Mutex::new(Vec::new());
    let create = async |name: &String| {
        let id = calls.create(name).await?;
        ids.lock().push(id);
        Ok(())
    };
    let made = take(
        stage,
        created,
        Latency::measure(names, at_once, |name| bare.create(name)),
        Latency::measure(names, at_once, create),
    )
    .await?;
    let ids = &ids.into_inner();
    let published = take(
        stage,
        published,
        Latency::measure(names, at_once, |name| bare.publish(name)),
        Latency::measure(ids, at_once, |id| calls.publish(id)),
    )
    .await?;
    let unpublished = take(
        stage,
        unpublished,
        Latency::measure(names, at_once, |name| bare.unpublish(name)),
        Latency::measure(ids, at_once, |id| calls.unpublish(id)),
    )
    .await?;
    let deleted = take(
        stage,
        deleted,
        Latency::measure(names, at_once, |name| bare.delete(name)),
        Latency::measure(ids, at_once, |id| calls.delete(id)),
    )
    .await?;
    Ok([made, published, unpublished, deleted])
}

/// First the bare client, then the driver.
async fn take(
    stage: &Stage,
    step: Step,
    bare: impl Future<Output = anyhow::Result<Latency>>,
    driver: impl Future<Output = anyhow::Result<Latency>>,
) -> anyhow::Result<Taken> {
    let bare = bare.await?;
    requests(stage).await?;
    let driver = driver.await?;
    Ok(Taken {
        step,
        bare,
        driver,
        seen: requests(stage).await?,
    })
}

/// The requests of the array since the last time.
async fn requests(stage: &Stage) -> anyhow::Result<Seen> {
    Ok(Seen::of(&stage.control.take_requests().await?))
}

impl Taken {
    fn add_to(&self, table: &mut Table, args: &Args, latency: u64) {
        let (bare, driver, volumes) = (&self.bare, &self.driver, args.volumes());
        let Step {
            done,
            least,
            requests,
        } = self.step;
        say(&format!(
            "requests for {volumes} {done}: {}",
            self.seen.summary()
        ));
        let row = Row::new(format!("{done} per second"), driver.per_second());
        table.add(row.beside(format!("bare: {least}"), bare.per_second()));
        let each = many(self.seen.count()) / many(volumes);
        let row = Row::new(format!("{done}: array requests each"), each);
        // Each client may be the one that looks again, which is much of it where volumes are few.
        let now_and_then = NOW_AND_THEN.max(many(args.clients) / many(volumes));
        table.add(row.goal(Goal::AtMost(requests + now_and_then)));
        let row = Row::new(format!("{done}: p50, ms"), driver.percentile(50));
        let alone = requests * millis(latency);
        table.add(if alone > 0.0 {
            row.beside("such requests alone", alone)
        } else {
            row.beside("bare", bare.percentile(50))
        });
        let row = Row::new(format!("{done}: p99, ms"), driver.percentile(99));
        table.add(row.beside("bare", bare.percentile(99)));
    }
}

#[allow(clippy::cast_precision_loss, reason = "a few thousand volumes")]
fn many(count: usize) -> f64 {
    count as f64
}

#[allow(clippy::cast_precision_loss, reason = "some milliseconds")]
fn millis(latency: u64) -> f64 {
    latency as f64
}
