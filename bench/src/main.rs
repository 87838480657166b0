//! `stowage-bench`: see the library.

use std::io::Write;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    let args = stowage_bench::Args::parse();
    // What is dropped takes its processes, mounts and directories along.
    let done = tokio::select! {
        done = args.run() => done,
        interrupted = tokio::signal::ctrl_c() => match interrupted {
            Ok(()) => Err(anyhow!("interrupted")),
            Err(error) => Err(error.into()),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One sentence, whatever RUST_BACKTRACE says: nothing has crashed.
            let _ = writeln!(std::io::stderr().lock(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
