//! `./x bench drain`, `operator`, `sidecar`, `vpsa`, `weka` and `weka-operator` in small: they go through, and everything they promise is measured. What comes out is no
//! test's business.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;

use devcluster::isolated;
use stowage_bench::sidecar::{self, Args};
use stowage_bench::table::{Row, Table};
use stowage_bench::weka::Backing;
use stowage_bench::{drain, operator, vpsa, weka, weka_operator};

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_is_measured_in_every_respect() {
    let sizes = Args {
        claims: 20,
        attachments: 10,
        objects: 30,
        expansions: 10,
        snapshots: 10,
        contents: 20,
        workers: 10,
        rest: 0,
        nodes: Some(20),
        beside: Some(format!(
            "{} sidecar controller --kubeconfig={{kubeconfig}} --csi-address={{csi-address}} \
             --provisioner-worker-threads={{workers}} --leader-election-namespace=default",
            env!("CARGO_BIN_EXE_stowage")
        )),
    };
    let stowage = Path::new(env!("CARGO_BIN_EXE_stowage"));
    let tables = sidecar::run(stowage, None, &sizes).await.unwrap();

    let rows: Vec<_> = tables.iter().flat_map(Table::rows).collect();
    for promised in [
        "node role: start to serving",
        "node role: working set",
        "controller: start to serving",
        "controller: working set",
        "controller: of it anonymous",
        "PVs per second beside it",
        "beside it: start to the first PV",
        "PVs per second, from",
        "start to the last PV",
        "start to the last Bound",
        "API writes without events per claim",
        "events per claim",
        "API reads per claim",
        "attached per second",
        "API writes without events per attachment",
        "detached per second",
        "start to the first PV for a claim",
        "grown per second",
        "start to the last grown claim",
        "API writes without events per expansion",
        "ready per second",
        "start to the last ready snapshot",
        "API writes without events per snapshot",
        "snapshot controller: working set",
        "sidecar: start to the first content",
        "sidecar: working set",
        "snapshot controller: start to the first",
    ] {
        let found = rows.iter().find(|row| row.what().starts_with(promised));
        let row = found.unwrap_or_else(|| panic!("nothing says `{promised}`: {tables:?}"));
        assert!(
            row.figure().is_finite() && row.figure() > 0.0,
            "{promised}: {row:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_is_measured_in_every_respect() {
    let sizes = operator::Args {
        drivers: 3,
        classes: 2,
        nodes: 5,
        rest: 1,
    };
    let stowage = Path::new(env!("CARGO_BIN_EXE_stowage"));
    let table = operator::run(stowage, &sizes).await.unwrap();
    let figure = |promised: &str| figure(&table, promised);
    // Two accounts, two roles with bindings, CSIDriver, two classes, two workloads, and the instance.
    assert!((figure("objects") - 36.0).abs() < 0.1, "{table}");
    // The one promise that does not depend on the machine.
    assert!(figure("writes in 1 s of rest").abs() < 0.1, "{table}");
    assert!(figure("requests per minute").is_finite(), "{table}");
    for promised in [
        "start to all in effect",
        "API writes without events per object",
        "dry runs per object",
        "API reads per object",
        "at rest: working set",
        "a deleted DaemonSet is back",
    ] {
        assert!(figure(promised) > 0.0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_node_by_node_are_measured_in_every_respect() {
    let stowage = Path::new(env!("CARGO_BIN_EXE_stowage"));
    let table = drain::run(stowage, &drain::Args { nodes: 4 })
        .await
        .unwrap();
    for promised in [
        "ms for each node",
        "the second half",
        "API writes for each node",
        "API reads for each node",
        "questions what is mounted for each node",
        "afterwards: working set",
    ] {
        assert!(figure(&table, promised) > 0.0, "{table}");
    }
    let beyond = figure(&table, "of it beyond eviction and start of pods");
    assert!(beyond.is_finite(), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_of_weka_clients_is_measured_in_every_respect() {
    let sizes = weka_operator::Args { nodes: 5, rest: 1 };
    let stowage = Path::new(env!("CARGO_BIN_EXE_stowage"));
    let table = weka_operator::run(stowage, &sizes).await.unwrap();
    let figure = |promised: &str| figure(&table, promised);
    // The one promise that does not depend on the machine.
    assert!(figure("writes in 1 s of rest").abs() < 0.1, "{table}");
    assert!(figure("requests per minute").is_finite(), "{table}");
    for promised in [
        "start to all pods made",
        "API writes per node",
        "API reads per node",
        "at rest: working set",
        "a deleted node pod is back",
        "a deleted CSIDriver is back",
        "a deleted StorageClass is back",
        "a deleted Deployment is back",
    ] {
        assert!(figure(promised) > 0.0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_vpsa_driver_is_measured_in_every_respect() {
    let sizes = vpsa::Args {
        volumes: 20,
        arrays: 2,
        latency: 5,
        clients: 4,
        steady: 30,
        rest: 1,
    };
    let stowage = Path::new(env!("CARGO_BIN_EXE_stowage"));
    let tables = vpsa::run(stowage, &sizes).await.unwrap();
    let [volumes, rest] = tables.as_slice() else {
        panic!("{tables:?}");
    };
    for done in ["made", "deleted"] {
        for promised in [": all of them, s", ": p50, ms", ": p99, ms"] {
            assert!(
                figure(volumes, &format!("{done}{promised}")) > 0.0,
                "{volumes}"
            );
        }
        // What arrays are asked for a volume does not depend on the machine. Looks at arrays come by the clock, and are not one for each.
        let requests = figure(volumes, &format!("{done}: array requests each"));
        assert!((3.0..4.0).contains(&requests), "{volumes}");
    }
    assert!(figure(volumes, "made: API writes each") > 0.0, "{volumes}");
    // Several at a time may choose before they see each other's choice.
    let fullest = figure(volumes, "made: volumes on the fullest array");
    assert!((10.0..=13.0).contains(&fullest), "{volumes}");
    assert!(figure(rest, "API writes meanwhile").abs() < 0.1, "{rest}");
    for promised in ["idle: working set", "in steady state: working set"] {
        assert!(figure(rest, promised) > 0.0, "{rest}");
    }
}

isolated! {
    async fn the_weka_driver_is_measured_in_every_respect(directory: &Path) {
        measure_weka(directory, Backing::Directory, 20).await;
    }

    async fn the_weka_driver_is_measured_with_volumes_that_are_snapshots(directory: &Path) {
        measure_weka(directory, Backing::Snapshot, 8).await;
    }

    async fn the_weka_driver_is_measured_with_volumes_that_are_filesystems(directory: &Path) {
        measure_weka(directory, Backing::Filesystem, 8).await;
    }
}

async fn measure_weka(directory: &Path, backing: Backing, volumes: usize) {
    let sizes = weka::Args {
        backing,
        volumes: Some(volumes),
        clients: 4,
        latency: vec![0, 5],
        rest: 0,
        directory: directory.to_owned(),
    };
    let stowage = Path::new(env!("CARGO_BIN_EXE_stowage"));
    let tables = weka::run(stowage, stowage, &sizes).await.unwrap();
    let [at_once, late, own_parts, memory] = tables.as_slice() else {
        panic!("{tables:?}");
    };
    for table in [at_once, late] {
        for done in ["created", "published", "unpublished", "deleted"] {
            for promised in [" per second", ": p50, ms", ": p99, ms"] {
                assert!(figure(table, &format!("{done}{promised}")) > 0.0, "{table}");
            }
        }
        // What the array is asked does not depend on the machine.
        for done in ["created", "published", "unpublished", "deleted"] {
            let row = row(table, &format!("{done}: array requests each"));
            assert_eq!(row.is_met(), Some(true), "{table}");
        }
    }
    assert!(
        figure(late, "created: p50, ms") > 5.0,
        "the array took its time: {late}"
    );
    for promised in [
        "CreateVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "DeleteVolume",
    ] {
        // Which part of them is quick enough is the machine's business.
        let share = figure(own_parts, promised);
        assert!((0.0..=1.0).contains(&share), "{own_parts}");
    }
    for promised in [
        "idle: working set",
        "after it all: working set",
        "after it all: of it anonymous",
    ] {
        assert!(figure(memory, promised) > 0.0, "{memory}");
    }
    assert_eq!(
        std::fs::read_dir(directory).unwrap().count(),
        0,
        "nothing stays behind"
    );
}

fn row<'a>(table: &'a Table, promised: &str) -> &'a Row {
    let found = table
        .rows()
        .iter()
        .find(|row| row.what().starts_with(promised));
    found.unwrap_or_else(|| panic!("nothing says `{promised}`: {table:?}"))
}

fn figure(table: &Table, promised: &str) -> f64 {
    row(table, promised).figure()
}
