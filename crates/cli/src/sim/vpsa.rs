//! Runs a simulated VPSA, the kernel of a node that uses it, and stand-ins for `iscsiadm` and `multipath`.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use stowage_service::Service;
use stowage_sim::vpsa::host::initiator::Printed;
use stowage_sim::vpsa::host::{SOCKET, SOCKET_VARIABLE, tools};
use stowage_sim::vpsa::{Array, Host};

use super::{install_all, wait};
use crate::args::{SimVpsaArgs, SimVpsaHostArgs};

/// The names under which this program stands in for a tool.
const TOOLS: [&str; 6] = [
    "mount",
    "mount.nfs",
    "mount.nfs4",
    "iscsiadm",
    "multipath",
    "multipathd",
];

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
    if let Some(directory) = &args.tools {
        install_all(directory, &TOOLS)?;
    }
    let host = Host::start(&args.host)?;
    tracing::info!(socket = %host.socket().display(), "Shares can be mounted and disks attached here.");
    wait(service).await
}

fn socket() -> PathBuf {
    env::var_os(SOCKET_VARIABLE).map_or_else(|| PathBuf::from(SOCKET), PathBuf::from)
}

/// Does what `iscsiadm` does.
pub fn iscsiadm(arguments: Vec<OsString>) -> ExitCode {
    print(&tools::iscsiadm(texts(arguments), &socket()))
}

/// Does what `multipath` and `multipathd` do.
pub fn multipath(arguments: Vec<OsString>) -> ExitCode {
    print(&tools::multipath(texts(arguments), &socket()))
}

fn texts(arguments: Vec<OsString>) -> Vec<String> {
    let arguments = arguments.into_iter();
    arguments
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect()
}

fn print(printed: &Printed) -> ExitCode {
    // Nothing is left to do where nobody listens.
    _ = io::stdout().write_all(printed.out.as_bytes());
    _ = io::stderr().write_all(printed.err.as_bytes());
    ExitCode::from(printed.code)
}
