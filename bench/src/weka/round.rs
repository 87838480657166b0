//! One round: volumes are made, published, unpublished and deleted, each step first by the bare client.

use std::sync::{Mutex, PoisonError};

use super::Args;
use super::bare::Bare;
use super::calls::Calls;
use super::seen::Seen;
use super::stage::Stage;
use crate::latency::Latency;
use crate::say;
use crate::table::{Goal, Row, Table};

/// One step, by the driver and by the bare client.
struct Step {
    /// What happens to a volume.
    done: &'static str,
    driver: Latency,
    seen: Seen,
    bare: Latency,
    /// What the bare client does.
    least: &'static str,
    /// How many requests of the array should be enough.
    requests: f64,
}

/// Measures with an array that takes so many milliseconds for an answer.
pub async fn measure(
    stage: &Stage,
    calls: &Calls,
    args: &Args,
    latency: u64,
) -> anyhow::Result<Table> {
    stage.control.turn(|knobs| knobs.latency = 0).await?;
    let bare = Bare::connect(stage).await?;
    stage.control.turn(|knobs| knobs.latency = latency).await?;
    let steps = steps(stage, calls, &bare, args, latency).await?;
    bare.tidy().await?;

    let speed = match latency {
        0 => "at once".to_owned(),
        latency => format!("after {latency} ms"),
    };
    let mut table = Table::new(format!("answers {speed}, {} clients", args.clients));
    for step in &steps {
        step.tell(args.volumes, latency, &mut table);
    }
    Ok(table)
}

async fn steps(
    stage: &Stage,
    calls: &Calls,
    bare: &Bare,
    args: &Args,
    latency: u64,
) -> anyhow::Result<[Step; 4]> {
    let names: Vec<String> = (0..args.volumes)
        .map(|number| format!("after-{latency}-{number}"))
        .collect();
    let ids = Mutex::new(Vec::new());
    let create = async |name: &String| {
        let id = calls.create(name).await?;
        ids.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        Ok(())
    };
    let at_once = args.clients;
    let made_bare = Latency::measure(&names, at_once, |name| bare.create(name)).await?;
    forget(stage).await?;
    let made = Latency::measure(&names, at_once, create).await?;
    let made = Step {
        done: "created",
        driver: made,
        seen: forget(stage).await?,
        bare: made_bare,
        least: "mkdir, quota",
        requests: 5.0,
    };
    let ids = ids.into_inner().unwrap_or_else(PoisonError::into_inner);

    let bound = Latency::measure(&names, at_once, |name| bare.publish(name)).await?;
    forget(stage).await?;
    let published = Latency::measure(&ids, at_once, |id| calls.publish(id)).await?;
    let published = Step {
        done: "published",
        driver: published,
        seen: forget(stage).await?,
        bare: bound,
        least: "mkdir, bind",
        requests: 1.0,
    };

    let unbound = Latency::measure(&names, at_once, |name| bare.unpublish(name)).await?;
    forget(stage).await?;
    let unpublished = Latency::measure(&ids, at_once, |id| calls.unpublish(id)).await?;
    let unpublished = Step {
        done: "unpublished",
        driver: unpublished,
        seen: forget(stage).await?,
        bare: unbound,
        least: "umount, rmdir",
        requests: 0.0,
    };

    let moved = Latency::measure(&names, at_once, |name| bare.delete(name)).await?;
    forget(stage).await?;
    let deleted = Latency::measure(&ids, at_once, |id| calls.delete(id)).await?;
    let deleted = Step {
        done: "deleted",
        driver: deleted,
        seen: forget(stage).await?,
        bare: moved,
        least: "rename",
        requests: 1.0,
    };
    Ok([made, published, unpublished, deleted])
}

/// The requests of the array since the last time.
async fn forget(stage: &Stage) -> anyhow::Result<Seen> {
    Ok(Seen::of(&stage.control.take_requests().await?))
}

impl Step {
    fn tell(&self, volumes: usize, latency: u64, table: &mut Table) {
        let Self {
            done,
            driver,
            seen,
            bare,
            least,
            requests,
        } = self;
        say(&format!("asked for {volumes} {done}: {}", seen.told()));
        let row = Row::new(format!("{done} per second"), driver.per_second());
        table.add(row.beside(format!("bare: {least}"), bare.per_second()));
        let each = many(seen.count()) / many(volumes);
        let row = Row::new(format!("{done}: array requests each"), each);
        // A token is renewed now and then.
        table.add(row.goal(Goal::AtMost(requests + 0.05)));
        let row = Row::new(format!("{done}: p50, ms"), driver.percentile(50));
        table.add(match latency {
            0 => row.beside("bare", bare.percentile(50)),
            latency if each > 0.5 => row.beside("its requests alone", each * millis(latency)),
            _ => row,
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
