//! Another provisioner with the same claims: it and ours, each on a control plane of its own, so that neither finds the
//! other's objects, caches and compactions.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Args;
use super::claims::{self, Made, many};
use super::stage::Stage;
use crate::say;
use crate::table::{Goal, Row, Table};

/// So much of what it printed is shown if it fails.
const LINES: usize = 10;

/// Measures both, ours first.
pub async fn measure(
    stowage: &Path,
    driver: Option<&Path>,
    args: &Args,
    command: &str,
) -> anyhow::Result<Table> {
    let stage = Stage::set(stowage, driver, args).await?;
    let start = async || {
        let sidecar = stage.controller().await?;
        Ok((sidecar.process.started(), sidecar))
    };
    let (ours, sidecar) = claims::make(&stage, args.claims, start).await?;
    sidecar.process.stop().await?;
    drop(stage);

    let stage = Stage::set(stowage, driver, args).await?;
    let theirs = theirs(&stage, args.claims, command).await?;
    let title = format!(
        "{} claims that wait, beside `{command}`, each on a fresh control plane",
        args.claims
    );
    let mut table = Table::new(title);
    let rate = |made: &Made| many(args.claims) / made.last;
    let row = Row::new(
        "PVs per second beside it, from the start of the process",
        rate(&ours),
    );
    table.add(
        row.beside("the other", rate(&theirs))
            .goal(Goal::AtLeast(1.3)),
    );
    for (what, ours, theirs) in [
        (
            "beside it: start to the first PV, s",
            ours.first,
            theirs.first,
        ),
        ("beside it: start to the last PV, s", ours.last, theirs.last),
        (
            "beside it: start to the last Bound, s",
            ours.bound,
            theirs.bound,
        ),
    ] {
        table.add(Row::new(what, ours).beside("the other", theirs));
    }
    Ok(table)
}

async fn theirs(stage: &Stage, count: usize, command: &str) -> anyhow::Result<Made> {
    let log = stage.directory.path().join("beside.log");
    let filled = command
        .replace("{kubeconfig}", &stage.kubeconfig.display().to_string())
        .replace("{csi-address}", &stage.csi_address())
        .replace("{workers}", &stage.workers.to_string());
    say(&format!("beside: {filled}"));
    let (runs, running) = oneshot::channel();
    let start = async || {
        let started = Instant::now();
        let _ = runs.send(spawn(&filled, &log)?);
        Ok((started, ()))
    };
    let ended = async {
        let mut other: Child = running.await?;
        anyhow::Ok(other.wait().await?)
    };
    // Whoever loses is dropped, and the other process is killed with it.
    let why = tokio::select! {
        made = claims::make(stage, count, start) => match made {
            Ok((made, ())) => return Ok(made),
            Err(error) => format!("{error:#}"),
        },
        ended = ended => format!("it ended: {}", ended?),
    };
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<_> = said.lines().collect();
    let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
    bail!("`{filled}` did not make the volumes ({why}):\n{end}")
}

fn spawn(command: &str, log: &Path) -> anyhow::Result<Child> {
    let log = File::create(log)?;
    let shell = Command::new("sh")
        .arg("-c")
        .arg(format!("exec {command}"))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn();
    shell.with_context(|| format!("cannot start `{command}`"))
}
