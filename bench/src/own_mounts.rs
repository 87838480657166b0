//! Mounts that nobody else sees, and that are gone when the program ends, however it does.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;

/// Says that the program has mounts of its own already.
const MARK: &str = "STOWAGE_BENCH_OWN_MOUNTS";

/// Starts this program again, in this process, with mounts of its own; returns if it has them.
pub fn ensure() -> anyhow::Result<()> {
    if std::env::var_os(MARK).is_some() {
        return Ok(());
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let error = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(MARK, "yes")
        .exec();
    Err(error).context("cannot run `unshare`")
}
