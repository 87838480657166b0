//! What the kernel of a node does with exports of arrays, in a process beside it and outside of any pod.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::runtime::Handle;

use super::share::{Network, Share};
use super::tool::{Mount, Permission, Question};
use crate::handover::{Answering, SocketError, receive, send, take_over};

/// The socket that `mount.nfs` asks, unless [`SOCKET_VARIABLE`] says otherwise.
pub const SOCKET: &str = "/run/stowage-sim/nfs/host.sock";

/// Says which socket `mount.nfs` asks.
pub const SOCKET_VARIABLE: &str = "STOWAGE_SIM_NFS_SOCKET";

/// A node that mounts by NFS.
#[derive(clap::Args, Clone, Debug)]
pub struct HostOptions {
    /// Socket that the stand-in for `mount.nfs` asks
    #[arg(long, value_name = "FILE", env = SOCKET_VARIABLE, default_value = SOCKET)]
    pub socket: PathBuf,

    /// How it reaches them.
    #[command(flatten)]
    pub network: Network,
}

/// A node that runs for as long as this is held. What is mounted is served until it is unmounted.
#[derive(Debug)]
pub struct Host(Answering);

impl Host {
    /// Starts a node. Must be called inside a tokio runtime.
    pub fn start(options: &HostOptions) -> Result<Self, SocketError> {
        let (network, runtime) = (options.network, Handle::current());
        let answer = move |mut stream: UnixStream| {
            let Question::Mount(mount) = receive(&mut stream)?;
            answer(stream, &mount, network, &runtime)
        };
        Answering::start(&options.socket, answer).map(Self)
    }

    /// The socket that `mount.nfs` asks.
    pub fn socket(&self) -> &Path {
        self.0.socket()
    }
}

/// One mount, from the question to the end of serving it.
pub fn answer(
    mut stream: UnixStream,
    mount: &Mount,
    network: Network,
    runtime: &Handle,
) -> io::Result<()> {
    let asked = Share::ask(&mount.source, &mount.options, network);
    let share = match runtime.block_on(asked) {
        Ok(share) => share,
        Err(reason) => return send(&mut stream, &Permission::Refused(reason)),
    };
    let read_only = share.is_read_only();
    send(&mut stream, &Permission::Granted { read_only })?;
    let session = share.serve(take_over(&stream)?, runtime)?;
    send(&mut stream, &Permission::Granted { read_only })?;
    drop(stream);
    let source = &mount.source;
    tracing::info!(source, "Mounted.");
    // Ends with an error when it is unmounted by force: that is an end, too.
    let _ = session.run();
    tracing::info!(source, "Unmounted.");
    Ok(())
}
