//! Writing to the terminal.

use std::io::{self, ErrorKind, Write};

use anyhow::Context;

/// Prints `text` to standard output.
///
/// A reader that has seen enough (`stowage crds | head -1`) closes the pipe; that is not an error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Prints why the command failed, in one line.
pub fn complain(error: &anyhow::Error) {
    // Nothing is left to do where standard error cannot be written to.
    _ = writeln!(io::stderr().lock(), "error: {error:#}");
}

/// Columns of the terminal, or `None` where the output goes to a file or a pipe.
pub fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0.into())
}
