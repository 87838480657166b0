//! The source tree, cargo on it, and the terminal of whoever works with it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, thread};

use anyhow::{Context, anyhow};
use devcluster::debian;
use devcluster::kubernetes::Kubernetes;
use devcluster::process::logged;
use devcluster::report::Report;

/// The profile of what measures.
const BENCH_TOOLS: &str = "bench-tools";

/// What cargo builds with other features where it is built alone: with these beside it, the binary is made of what the tests are
/// made of, and nothing is built twice. One of them is the pool of API servers.
pub const AS_IN_TESTS: [&str; 4] = ["--package", "devcluster", "--package", "stowage-testing"];

/// Where the tree is; `./x` says so.
pub fn root() -> PathBuf {
    env::var_os("STOWAGE_ROOT").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join(".."),
        PathBuf::from,
    )
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A cargo command on the workspace, never changing the lock file.
pub fn cargo(verb: &str) -> Command {
    let mut command = Command::new("cargo");
    command.arg(verb).current_dir(root());
    if verb != "fmt" {
        command.arg("--locked");
    }
    command
}

/// Builds packages as they are shipped. Those that are built together share their features.
pub fn build_release(packages: &[&str], report: &Report) -> anyhow::Result<()> {
    let mut build = cargo("build");
    // Simulators are for people and tests; what is shipped has none.
    build.args(["--release", "--no-default-features"]);
    for package in packages {
        build.args(["--package", package]);
    }
    build.env("CARGO_ENCODED_RUSTFLAGS", reproducible_flags());
    let what = format!("Building {} for release", packages.join(" and "));
    step(report, &what, &mut build)
}

/// Builds the binary that demos and tests run; its file.
pub fn build_debug(report: &Report) -> anyhow::Result<PathBuf> {
    let mut build = cargo("build");
    build.args(["--package", "stowage"]).args(AS_IN_TESTS);
    step(report, "Building stowage", &mut build)?;
    Ok(target().join("debug/stowage"))
}

/// Builds what measures a release binary, the array simulators too; returns the directory they are in.
pub fn build_bench_tools(report: &Report) -> anyhow::Result<PathBuf> {
    let mut build = cargo("build");
    build.args(["--profile", BENCH_TOOLS]);
    // Of the last one: a driver that keeps its volumes in memory.
    for package in ["stowage-bench", "stowage", "stowage-memory-driver"] {
        build.args(["--package", package]);
    }
    step(report, "Building what measures it", &mut build)?;
    Ok(target().join(BENCH_TOOLS))
}

/// The same source gives the same binary wherever it is built: no path of this machine stays in it.
fn reproducible_flags() -> String {
    let home = env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let cargo = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    [(root(), "/stowage"), (cargo, "/cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .join("\u{1f}")
}

/// Makes sure of what API servers of tests and benchmarks need: Kubernetes, and tools such as etcd.
pub fn ensure_servers(report: &Report) -> anyhow::Result<()> {
    Kubernetes::ensure(report)?;
    debian::ensure_tools(report)?;
    Ok(())
}

/// Both, side by side: on a machine that has neither, each takes minutes, and neither keeps all cores busy until its end.
pub fn build_debug_and_servers(report: &Report) -> anyhow::Result<()> {
    thread::scope(|scope| {
        let ours = scope.spawn(|| build_debug(report));
        let servers = ensure_servers(report);
        let ours = ours
            .join()
            .map_err(|_| anyhow!("building stowage panicked"));
        servers?;
        ours??;
        Ok(())
    })
}

/// Runs a cargo command as a step; what it prints goes to the log.
pub fn step(report: &Report, what: &str, command: &mut Command) -> anyhow::Result<()> {
    let step = report.step(what);
    logged(command, report.log(), |line| {
        if let Some(package) = line
            .trim()
            .strip_prefix("Compiling ")
            .or(line.trim().strip_prefix("Checking "))
        {
            step.note(package.split(' ').next().unwrap_or_default());
        }
    })
    .with_context(|| format!("{what} failed"))?;
    step.done("");
    Ok(())
}

/// Prints a line for people; a closed standard output is no reason to stop.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether a person wants it to end.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// An interrupt ends what this process runs, and not this process.
pub fn ignore_interrupts() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.spawn(async {
        while tokio::signal::ctrl_c().await.is_ok() {
            INTERRUPTED.store(true, Ordering::Relaxed);
            say("Interrupted: cleaning up.");
        }
    });
    // It lives as long as the process.
    std::mem::forget(runtime);
    Ok(())
}
