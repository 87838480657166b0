//! `stowage conformance` from its arguments to its exit code.

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tokio_util::sync::CancellationToken;

use crate::args::ConformanceArgs;
use crate::cases::GROUPS;
use crate::filter::{Filter, full_name};
use crate::options::{Options, OptionsError};
use crate::report::{Terminal, junit};
use crate::suite::{Event, RunError, conformance};

/// What the command comes to, and its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No case failed: 0.
    Kept,
    /// A case failed, or somebody interrupted the run: 1.
    Broken,
    /// The cases could not run, or their outcome could not be written: 2.
    Unknown,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(match verdict {
            Verdict::Kept => 0,
            Verdict::Broken => 1,
            Verdict::Unknown => 2,
        })
    }
}

/// Where the command writes.
#[derive(Debug)]
pub struct Console<O, E> {
    /// The report.
    pub out: O,
    /// Complaints.
    pub err: E,
    /// Whether `out` shows colours.
    pub colours: bool,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("cannot write the file `{}` for {option} ({source}): use another one", path.display())]
    ResultFile {
        option: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "interrupted twice: the last case did not clean up, look for its volumes by --name-prefix"
    )]
    Abandoned,
    #[error("cannot print the report: {0}")]
    Print(#[from] io::Error),
    #[error("cannot write the report as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Runs the command: prints the report on stdout and complaints on stderr, writes the files that were asked for.
/// 0 if nothing failed, 1 if a case failed, 2 if the cases could not run.
pub async fn run(args: &ConformanceArgs) -> ExitCode {
    let out = io::stdout();
    let console = Console {
        colours: out.is_terminal() && env::var_os("NO_COLOR").is_none(),
        out,
        err: io::stderr(),
    };
    run_on(args, console).await.into()
}

/// The same with another place to write to.
pub async fn run_on<O: Write, E: Write>(
    args: &ConformanceArgs,
    mut console: Console<O, E>,
) -> Verdict {
    let outcome = if args.list {
        list(args, &mut console.out)
    } else {
        execute(args, &mut console).await
    };
    outcome.unwrap_or_else(|error| {
        // Nothing is left to do if even this cannot be said.
        _ = writeln!(console.err, "error: {error}");
        Verdict::Unknown
    })
}

/// Prints what the filters choose, without a driver.
fn list(args: &ConformanceArgs, out: &mut impl Write) -> Result<Verdict, CommandError> {
    let filter = Filter {
        focus: args.focus.clone(),
        skip: args.skip.clone(),
    };
    for (group, case) in filter.select(GROUPS).map_err(RunError::from)? {
        writeln!(out, "{}", full_name(group, case))?;
        for need in group.needs.iter().chain(case.needs) {
            writeln!(out, "    needs {need}")?;
        }
    }
    Ok(Verdict::Kept)
}

async fn execute<O: Write, E: Write>(
    args: &ConformanceArgs,
    console: &mut Console<O, E>,
) -> Result<Verdict, CommandError> {
    let options = Options::try_from(args)?;
    // Opened first: nobody wants to learn after a long run that its result cannot be kept.
    let junit_file = ResultFile::create("--junit", args.junit.as_deref())?;
    let json_file = ResultFile::create("--json", args.json.as_deref())?;

    let mut terminal = Terminal::new(&mut console.out, console.colours);
    let mut printed = Ok(());
    let stop = CancellationToken::new();
    let running = conformance(options, stop.clone(), |event| {
        if printed.is_ok() {
            printed = match event {
                Event::Waiting(why) => writeln!(console.err, "{why}"),
                Event::Started { driver, cases } => terminal.start(driver, cases),
                Event::Finished(case) => terminal.case(case),
            };
        }
    });
    let report = tokio::select! {
        report = running => report?,
        () = two_signals(stop) => return Err(CommandError::Abandoned),
    };

    // The files first: they are also wanted if nobody reads stdout any more.
    if let Some(file) = junit_file {
        file.write(&junit(&report))?;
    }
    if let Some(file) = json_file {
        file.write(&report.json()?)?;
    }
    printed?;
    terminal.finish(&report)?;
    Ok(if report.is_success() {
        Verdict::Kept
    } else {
        Verdict::Broken
    })
}

/// Ctrl-C and the end of a CI job. The first lets the case under way clean up; the second ends the wait for that.
async fn two_signals(stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};

    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        // Without handlers the signals end the process at once, as they do by default.
        return std::future::pending().await;
    };
    for _ in 0..2 {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    }
}

/// A file for the result, open from the start.
struct ResultFile {
    option: &'static str,
    path: PathBuf,
    file: File,
}

impl ResultFile {
    fn create(option: &'static str, path: Option<&Path>) -> Result<Option<Self>, CommandError> {
        let Some(path) = path else { return Ok(None) };
        let path = path.to_owned();
        match File::create(&path) {
            Ok(file) => Ok(Some(Self { option, path, file })),
            Err(source) => Err(CommandError::ResultFile {
                option,
                path,
                source,
            }),
        }
    }

    fn write(mut self, text: &str) -> Result<(), CommandError> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|source| CommandError::ResultFile {
            option: self.option,
            path: self.path,
            source,
        })
    }
}
