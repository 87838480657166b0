//! `./x bench sidecar` in small: it goes through, and everything it promises is measured. What comes out is no test's
//! business.

use std::path::Path;

use stowage_bench::sidecar::{self, Args};

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
    };
    let stowage = Path::new(env!("CARGO_BIN_EXE_stowage"));
    let tables = sidecar::run(stowage, None, &sizes).await.unwrap();

    let rows: Vec<_> = tables
        .iter()
        .flat_map(stowage_bench::table::Table::rows)
        .collect();
    for promised in [
        "node role: start to serving",
        "node role: resident memory",
        "controller: start to serving",
        "controller: resident memory",
        "controller: of it anonymous",
        "PVs per second",
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
        "snapshot controller: resident memory",
        "sidecar: start to the first content",
        "sidecar: resident memory",
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
