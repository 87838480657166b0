//! Runs what the kernel of a node does with exports of arrays, and `mount.nfs`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::{env, io};

use stowage_service::Service;
use stowage_sim::nfs::host::Host;
use stowage_sim::nfs::{host, tool};
use stowage_sim::vpsa;

use super::{MOUNT_FAILED, install_all, wait};
use crate::args::SimNfsHostArgs;
use crate::output;

/// The names under which this program mounts exports.
const TOOLS: [&str; 2] = ["mount.nfs", "mount.nfs4"];

/// The tool in whose place this program mounts exports, and only these.
const MOUNT: &str = "/bin/mount";

/// Stands in for the kernel of a node until SIGTERM.
pub async fn host(args: SimNfsHostArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    if let Some(directory) = &args.tools {
        install_all(directory, &TOOLS)?;
    }
    let host = Host::start(&args.host)?;
    tracing::info!(socket = %host.socket().display(), "Exports can be mounted here.");
    wait(service).await
}

/// Who is asked: whoever the environment names, else the first that is there.
fn socket() -> PathBuf {
    let named = [host::SOCKET_VARIABLE, vpsa::host::SOCKET_VARIABLE].map(env::var_os);
    if let Some(named) = named.into_iter().flatten().next() {
        return named.into();
    }
    let usual = [host::SOCKET, vpsa::host::SOCKET].map(PathBuf::from);
    let there = usual.iter().find(|socket| socket.exists());
    there.unwrap_or(&usual[0]).clone()
}

/// Mounts, as mount(8) asks a helper to.
pub fn mount(arguments: Vec<OsString>) -> ExitCode {
    match tool::mount_nfs(arguments, &socket()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error.into());
            ExitCode::from(MOUNT_FAILED)
        }
    }
}

/// Mounts as `mount` does: exports by itself, all else by the machine's.
pub fn mount_any(arguments: Vec<OsString>) -> ExitCode {
    let mut pairs = arguments.windows(2);
    if pairs.any(|pair| pair[0] == "-t" && (pair[1] == "nfs" || pair[1] == "nfs4")) {
        return mount(arguments);
    }
    let error = replace_with(MOUNT, arguments);
    output::complain(&anyhow::Error::new(error).context(format!("cannot run {MOUNT}")));
    ExitCode::from(MOUNT_FAILED)
}

#[expect(
    clippy::disallowed_methods,
    reason = "it becomes the program, and has no end to wait for"
)]
fn replace_with(program: &str, arguments: Vec<OsString>) -> io::Error {
    Command::new(program).args(arguments).exec()
}
