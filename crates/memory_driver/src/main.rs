//! A CSI driver whose volumes are entries in a file: for benchmarks, and for tests that kill processes.
//!
//! Everything about it is in the library of this crate.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use stowage_csi::endpoint::Endpoint;
use stowage_csi::proto::csi::controller_service_capability::rpc::Type as Can;
use stowage_memory_driver::{Expansion, MemoryDriver, Mishap, Profile, control};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// A CSI driver whose volumes are entries in a file.
#[derive(Debug, Parser)]
struct Args {
    /// Where it listens
    #[arg(long)]
    endpoint: Endpoint,
    /// Directory of what it has and of its control socket; what is there from an earlier run is kept
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Its name
    #[arg(long, default_value = "memory.csi.test")]
    name: String,
    /// Capabilities it lacks, as the specification spells them: of the controller, for example
    /// PUBLISH_UNPUBLISH_VOLUME, or VOLUME_ACCESSIBILITY_CONSTRAINTS
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',', value_parser = Lacking::named)]
    without: Vec<Lacking>,
    /// When volumes can grow
    #[arg(long, value_enum, default_value = "online")]
    expansion: When,
    /// Volumes grow without their node
    #[arg(long)]
    expands_without_node: bool,
    /// Nodes that volumes can be published to; any, if none is named
    #[arg(long = "node", value_name = "NODE", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Milliseconds that every call takes longer
    #[arg(long, value_name = "MILLISECONDS")]
    delay: Option<u64>,
    /// File to which a line is added for every call
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Ends when its standard input does, however the process at the other end came to go
    #[arg(long)]
    tied: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    No,
    Online,
    Offline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacking {
    Topology,
    Controller(Can),
}

impl Lacking {
    fn named(name: &str) -> Result<Self, String> {
        match name {
            "VOLUME_ACCESSIBILITY_CONSTRAINTS" => Ok(Self::Topology),
            name => Can::from_str_name(name)
                .map(Self::Controller)
                .ok_or_else(|| "no capability of a driver".to_owned()),
        }
    }
}

impl Args {
    fn profile(&self) -> Profile {
        let mut profile = Profile {
            expansion: match self.expansion {
                When::No => Expansion::No,
                When::Online => Expansion::Online,
                When::Offline => Expansion::Offline,
            },
            expands_on_node: !self.expands_without_node,
            nodes: self.nodes.iter().cloned().collect(),
            ..Profile::named(&self.name)
        };
        for lacking in &self.without {
            match *lacking {
                Lacking::Topology => profile.topology = false,
                Lacking::Controller(capability) => profile = profile.without(capability),
            }
        }
        profile
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    std::fs::create_dir_all(&args.state)?;
    if let Some(path) = &args.log {
        let file = File::options().create(true).append(true).open(path)?;
        let lines = tracing_subscriber::fmt().with_ansi(false);
        lines.with_writer(Arc::new(file)).init();
    }
    let driver = MemoryDriver::open(args.profile(), &args.state)?;
    if let Some(delay) = args.delay {
        driver.upset_all(Mishap::delay(Duration::from_millis(delay)));
    }
    let serving = driver.serve(&args.endpoint)?;
    let control = args.state.join(control::SOCKET);
    // Ours from an earlier run; two drivers in one directory would not work anyway.
    _ = std::fs::remove_file(&control);
    let listening = control::listen(UnixListener::bind(control)?, driver);
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = listening => ended?,
        _ = terminated.recv() => {}
        () = end_of_input(), if args.tied => {}
    }
    serving.stop().await;
    Ok(())
}

/// Standard input blocks, so it is read on a thread; nothing comes but the end.
async fn end_of_input() {
    let (ended, end) = oneshot::channel::<()>();
    thread::spawn(move || {
        let mut byte = [0];
        while io::stdin().read(&mut byte).is_ok_and(|length| length > 0) {}
        drop(ended);
    });
    _ = end.await;
}
