//! Runs a simulated VPSA, the kernel of a node that uses it, `mount.nfs` and `iscsiadm`.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;
use stowage_service::Service;
use stowage_sim::vpsa::host::{SOCKET, SOCKET_VARIABLE, tools};
use stowage_sim::vpsa::{Array, Host};

use super::{MOUNT_FAILED, install, wait};
use crate::args::{SimVpsaArgs, SimVpsaHostArgs};
use crate::output;

/// The names under which this program stands in for a tool.
const TOOLS: [&str; 4] = ["mount", "mount.nfs", "mount.nfs4", "iscsiadm"];

/// The tool in whose place this program mounts shares, and only these.
const MOUNT: &str = "/bin/mount";

/// Serves a VPSA until SIGTERM.
pub async fn array(args: SimVpsaArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    let array = Array::start(args.array).await?;
    tracing::info!(
        url = %array.url(),
        control = %array.control().url(),
        data = %array.data().display(),
        "The VPSA runs."
    );
    if array.url().starts_with("https") {
        let certificate = array.data().join("ca.pem");
        tracing::info!(certificate = %certificate.display(), "Clients must trust its certificate.");
    }
    wait(service).await
}

/// Stands in for the kernel of a node until SIGTERM.
pub async fn host(args: SimVpsaHostArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    for tool in TOOLS {
        if let Some(directory) = &args.tools {
            install(&directory.join(tool))
                .with_context(|| format!("cannot put {tool} into {}", directory.display()))?;
        }
    }
    let host = Host::start(args.host)?;
    tracing::info!(socket = %host.socket().display(), "Shares can be mounted and disks attached here.");
    wait(service).await
}

fn socket() -> PathBuf {
    env::var_os(SOCKET_VARIABLE).map_or_else(|| PathBuf::from(SOCKET), PathBuf::from)
}

/// Mounts, as mount(8) asks a helper to.
pub fn mount(arguments: Vec<OsString>) -> ExitCode {
    match tools::mount_nfs(arguments, &socket()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error.into());
            ExitCode::from(MOUNT_FAILED)
        }
    }
}

/// Mounts as `mount` does: shares by itself, all else by the machine's.
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

/// Does what `iscsiadm` does.
pub fn iscsiadm(arguments: Vec<OsString>) -> ExitCode {
    let arguments = arguments
        .into_iter()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let printed = tools::iscsiadm(arguments, &socket());
    // Nothing is left to do where nobody listens.
    _ = io::stdout().write_all(printed.out.as_bytes());
    _ = io::stderr().write_all(printed.err.as_bytes());
    ExitCode::from(printed.code)
}
