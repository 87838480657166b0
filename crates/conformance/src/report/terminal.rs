//! The report for a person: a line per case as it ends, what failed once more at the end, and the counts.

use std::io::{self, Write};

use super::{CaseReport, DriverReport, Failure, Outcome, Report};

const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const PLAIN: &str = "\u{1b}[0m";

/// Writes lines to a terminal or a file.
pub(crate) struct Terminal<W> {
    to: W,
    colours: bool,
    group: Option<&'static str>,
}

impl<W: Write> Terminal<W> {
    pub(crate) fn new(to: W, colours: bool) -> Self {
        Self {
            to,
            colours,
            group: None,
        }
    }

    /// The first line.
    pub(crate) fn start(&mut self, driver: &DriverReport, cases: usize) -> io::Result<()> {
        let name = match driver.name.as_str() {
            "" => "a driver without a name",
            name => name,
        };
        let version = match driver.version.as_str() {
            "" => String::new(),
            version => format!(" {version}"),
        };
        let plural = if cases == 1 { "" } else { "s" };
        writeln!(self.to, "Driver {name}{version}: {cases} case{plural}")
    }

    /// A case has ended.
    pub(crate) fn case(&mut self, case: &CaseReport) -> io::Result<()> {
        if self.group != Some(case.group) {
            self.group = Some(case.group);
            writeln!(self.to, "\n{}", case.group)?;
        }
        let (word, colour) = match case.outcome {
            Outcome::Passed => ("passed", GREEN),
            Outcome::Failed { .. } => ("FAILED", RED),
            Outcome::Skipped { .. } => ("skipped", YELLOW),
        };
        // Padded before it is coloured: a format's width would count the colour's characters.
        let word = self.coloured(&format!("{word:<7}"), colour);
        match &case.outcome {
            Outcome::Passed => writeln!(self.to, "  {word}  {}", case.name)?,
            Outcome::Skipped { reason } => writeln!(self.to, "  {word}  {} ({reason})", case.name)?,
            Outcome::Failed { failures } => {
                writeln!(self.to, "  {word}  {}", case.name)?;
                self.failures(failures)?;
            }
        }
        // Whoever watches a long case should see the ones before it.
        self.to.flush()
    }

    fn failures(&mut self, failures: &[Failure]) -> io::Result<()> {
        for failure in failures {
            writeln!(self.to, "           {}", failure.check)?;
            writeln!(self.to, "             expected  {}", failure.expected)?;
            writeln!(self.to, "             got       {}", failure.got)?;
        }
        Ok(())
    }

    /// The last lines. A case's details may be screens above by now, so its name comes again.
    pub(crate) fn finish(&mut self, report: &Report) -> io::Result<()> {
        let mut failed = report.failed().peekable();
        if failed.peek().is_some() {
            writeln!(self.to, "\nFailed")?;
            for case in failed {
                let word = self.coloured("FAILED ", RED);
                writeln!(self.to, "  {word}  {}: {}", case.group, case.name)?;
            }
        }
        if report.interrupted {
            writeln!(self.to, "\nInterrupted before the end.")?;
        }
        let counts = report.counts();
        let colour = if report.is_success() { GREEN } else { RED };
        let line = format!(
            "{} passed, {} failed, {} skipped",
            counts.passed, counts.failed, counts.skipped
        );
        let line = self.coloured(&line, colour);
        writeln!(self.to, "\n{line} in {:.1} s", report.seconds)?;
        self.to.flush()
    }

    fn coloured(&self, text: &str, colour: &str) -> String {
        if self.colours {
            format!("{colour}{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }
}
