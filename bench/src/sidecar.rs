//! `./x bench sidecar`: the sidecar beside a driver that answers at once, on a control plane of its own.
//!
//! | file | holds |
//! |---|---|
//! | [`stage`] | control plane, driver, clients, and how the sidecar is started |
//! | [`objects`], [`snapshot_objects`] | what is written, as JSON |
//! | [`bare`] | the ceiling: a client that writes what the sidecar writes, and does nothing else |
//! | [`arrival`] | when objects became what they should be |
//! | [`requests`](crate::requests) | what the API server was asked, from its audit log |
//! | [`provisioned`] | claims that have their volumes |
//! | [`beside`] | another provisioner, and ours, each on a control plane of its own |
//! | [`idle`], [`claims`], [`attachments`], [`expansions`], [`snapshots`], [`crowd`], [`contents`] | what is measured |

mod arrival;
mod attachments;
mod bare;
mod beside;
mod claims;
mod contents;
mod crowd;
mod expansions;
mod idle;
mod objects;
mod provisioned;
mod snapshot_objects;
mod snapshots;
mod stage;

use std::path::Path;

use anyhow::ensure;

use self::stage::Stage;
use crate::say;
use crate::table::Table;

/// The sidecar: claims, attachments, expansions and snapshots that wait when it starts, memory, time to start
///
/// A number of 0 leaves that part out.
///
/// The sidecar is a process of its own, and so is its driver, which keeps its volumes in memory and answers at once. The control plane is one
/// of this run. A bare client makes the same writes on the same server first: what it reaches is the ceiling.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Claims that wait when the sidecar starts; the whole measurement: 1000
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub claims: usize,
    /// Attachments that wait when the sidecar starts, at most one per claim; the whole measurement: 500
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub attachments: usize,
    /// Volumes, each with its claim, that exist when the sidecar starts; the whole measurement: 5000
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub objects: usize,
    /// Claims that wait to grow when the sidecar starts; the whole measurement: 500
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub expansions: usize,
    /// Snapshots that wait when sidecar and snapshot controller start; the whole measurement: 500
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub snapshots: usize,
    /// Snapshots, each with its content, that exist when sidecar and snapshot controller start; the whole measurement: 15000
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub contents: usize,
    /// How many claims to work on at a time, the sidecar and the bare client; the default is the sidecar's
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub workers: usize,
    /// Seconds of rest before memory is looked at: less than a few renewals of the leases would flatter
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub rest: u64,
    /// Nodes with the driver, each with a topology segment of its own; without it, eight in one zone
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// Another provisioner to measure with the same claims, it and ours each on a fresh control plane. {kubeconfig}, {csi-address}
    /// and {workers} are filled in: --beside 'csi-provisioner --kubeconfig={kubeconfig} --csi-address={csi-address}'
    #[arg(long, value_name = "COMMAND")]
    pub beside: Option<String>,
}

/// Measures, prints what is found, and returns it. Without a `driver` one is built.
pub async fn run(stowage: &Path, driver: Option<&Path>, args: &Args) -> anyhow::Result<Vec<Table>> {
    ensure!(args.claims != 1, "--claims must be at least 2, or 0");
    ensure!(args.workers > 0, "--workers must be at least 1");
    ensure!(
        args.attachments <= args.claims,
        "--attachments must be at most --claims: the volumes are attached that were made for the claims"
    );
    let mut tables = Vec::new();
    let mut show = |table: Table| {
        say(&format!("{table}\n"));
        tables.push(table);
    };
    if let Some(command) = &args.beside {
        ensure!(
            args.claims > 0,
            "--beside needs claims to compare: --claims is 0"
        );
        show(beside::measure(stowage, driver, args, command).await?);
    }
    let stage = Stage::set(stowage, driver, args).await?;
    let (table, model) = idle::measure(&stage).await?;
    show(table);
    if args.claims > 0 {
        show(claims::measure(&stage, &model, args.claims).await?);
    }
    if args.attachments > 0 {
        show(attachments::measure(&stage, args.attachments).await?);
    }
    if args.expansions > 0 {
        show(expansions::measure(&stage, &model, args.expansions).await?);
    }
    if args.snapshots > 0 || args.contents > 0 {
        stage.install_snapshots().await?;
    }
    if args.snapshots > 0 {
        show(snapshots::measure(&stage, args.snapshots).await?);
    }
    if args.objects > 0 {
        show(crowd::measure(&stage, &model, args.objects).await?);
    }
    if args.contents > 0 {
        show(contents::measure(&stage, args.contents).await?);
    }
    Ok(tables)
}
