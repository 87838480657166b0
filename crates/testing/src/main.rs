//! The pool of API servers that `./x test` runs beside the tests.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Parser;
use stowage_testing::pool::lender::Lender;

/// Lends API servers to tests until its standard input ends.
#[derive(Parser)]
struct Arguments {
    /// Where tests ask.
    #[arg(long, value_name = "SOCKET")]
    socket: PathBuf,
    /// How many servers are lent at the same time.
    #[arg(long, value_name = "N", default_value_t = 4)]
    servers: usize,
    /// Where logs of servers are kept.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let lender = Lender::new(arguments.servers, arguments.logs)?;
    lender.serve(&arguments.socket)?;
    // Whoever started it holds the other end: nothing of it outlives that process, however it ends.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    lender.end();
    Ok(())
}
