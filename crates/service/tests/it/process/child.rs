//! A process that does nothing until it is asked to stop, and misbehaves on request.

use std::future::pending;
use std::thread;
use std::time::Duration;

use clap::Parser;
use stowage_service::{Service, ServiceArgs};

#[derive(Parser)]
// Many run side by side: any free port, which the log names.
#[command(mut_arg("http_endpoint", |arg| arg.default_value("127.0.0.1:0")))]
pub(crate) struct Args {
    #[command(flatten)]
    service: ServiceArgs,

    /// Start a task with this name that never ends
    #[arg(long)]
    stuck_task: Vec<String>,

    /// Start a task with this name that panics
    #[arg(long)]
    panicking_task: Option<String>,

    /// Work that ends by itself, with this error
    #[arg(long)]
    fail: Option<String>,

    /// Work that ignores the request to stop
    #[arg(long)]
    ignore_stop: bool,

    /// Work that blocks the only thread of the runtime
    #[arg(long)]
    block: bool,
}

/// Returns the exit code.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(args: Args) -> i32 {
    let service = match Service::start(&args.service) {
        Ok(service) => service,
        Err(error) => {
            tracing::error!(%error, "Cannot start.");
            return 2;
        }
    };
    for name in &args.stuck_task {
        service.tasks().spawn(name, pending());
    }
    if let Some(name) = &args.panicking_task {
        service
            .tasks()
            .spawn(name, async { panic!("as asked for on the command line") });
    }
    let shutdown = service.shutdown();
    match service.run(idle(args, shutdown.cancelled_owned())).await {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!(%error, "Ended.");
            1
        }
    }
}

async fn idle(args: Args, stop: impl Future<Output = ()>) -> Result<(), String> {
    tracing::info!("Idle.");
    if let Some(error) = args.fail {
        return Err(error);
    }
    if args.block {
        thread::sleep(Duration::from_secs(60));
    }
    if args.ignore_stop {
        pending::<()>().await;
    }
    let heartbeat = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            tracing::debug!("Still idle.");
            tracing::info!("One beat.");
        }
    };
    tokio::select! {
        () = stop => Ok(()),
        () = heartbeat => Ok(()),
    }
}
