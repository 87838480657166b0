//! Runs simulated arrays, and the stand-ins for the tools of a host that reach them.

mod nfs;
mod vpsa;
mod weka;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use stowage_csi::metrics::ServerMetrics;
use stowage_csi::server::Shutdown;
use stowage_service::Service;

use crate::args::{Sim, SimFuseDriverArgs};
use crate::serve;

/// What mount(8) expects of a helper that could not mount.
const MOUNT_FAILED: u8 = 32;

/// Runs what was asked for.
pub fn run(sim: Sim) -> anyhow::Result<ExitCode> {
    match sim {
        Sim::FuseDriver(args) => serve(fuse_driver(*args)),
        Sim::Vpsa(args) => serve(vpsa::array(*args)),
        Sim::VpsaHost(args) => serve(vpsa::host(*args)),
        Sim::NfsHost(args) => serve(nfs::host(*args)),
        Sim::MountNfs(args) => return Ok(nfs::mount(args.arguments)),
        Sim::Iscsiadm(args) => return Ok(vpsa::iscsiadm(args.arguments)),
        Sim::Weka(args) => serve(weka::array(*args)),
        Sim::WekaFrontend(args) => serve(weka::frontend(*args)),
        Sim::WekaClient(args) => serve(weka::client(*args)),
        Sim::MountWekafs(args) => return Ok(weka::mount(args.arguments)),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Runs the tool by whose name this program is called, if it is one.
pub fn as_tool(mut given: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let program = given.next()?;
    let run = match Path::new(&program).file_name()?.to_str()? {
        "mount.wekafs" => weka::mount,
        "mount.nfs" | "mount.nfs4" => nfs::mount,
        "mount" => nfs::mount_any,
        "iscsiadm" => vpsa::iscsiadm,
        "multipath" | "multipathd" => vpsa::multipath,
        _ => return None,
    };
    Some(run(given.collect()))
}

/// Copies this program to a directory under the names of tools, for pods that call them.
fn install_all(directory: &Path, tools: &[&str]) -> anyhow::Result<()> {
    for tool in tools {
        install(&directory.join(tool))
            .with_context(|| format!("cannot put {tool} into {}", directory.display()))?;
    }
    Ok(())
}

/// Copies this program. The file changes as a whole: pods may be calling it.
fn install(file: &Path) -> std::io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let copy = file.with_extension("new");
    fs::copy("/proc/self/exe", &copy)?;
    fs::rename(copy, file)
}

/// Serves a driver whose mounts die with it until SIGTERM.
async fn fuse_driver(args: SimFuseDriverArgs) -> anyhow::Result<()> {
    let service = Service::start(&args.service)?;
    let metrics = service.metrics().with_registry(ServerMetrics::register);
    let shutdown = Shutdown {
        token: service.shutdown(),
        grace: args.service.grace_period,
    };
    let work = stowage_sim::fuse_driver::run(args.driver, metrics, shutdown);
    Ok(service.run(work).await?)
}

async fn wait(service: Service) -> anyhow::Result<()> {
    let shutdown = service.shutdown();
    let work = async move {
        shutdown.cancelled().await;
        Ok::<(), Infallible>(())
    };
    Ok(service.run(work).await?)
}
