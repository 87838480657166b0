//! What is printed: the lines of WEKA's own script, and counts.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How important a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        })
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Every directory was looked at.
    Reached,
    /// By a signal.
    Interrupted,
    /// By trouble that concerns all directories.
    Aborted,
}

/// What became of the directories.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) migrated: usize,
    pub(super) skipped: usize,
    pub(super) warnings: usize,
    /// Their names.
    pub(super) failed: Vec<String>,
}

/// Prints lines, and counts.
pub(super) struct Report<'a> {
    print: &'a dyn Fn(String),
    is_verbose: bool,
    is_dry: bool,
    pub(super) counts: Counts,
}

impl<'a> Report<'a> {
    pub(super) fn new(print: &'a dyn Fn(String), is_verbose: bool, is_dry: bool) -> Self {
        Self {
            print,
            is_verbose,
            is_dry,
            counts: Counts::default(),
        }
    }

    pub(super) fn banner(&self) {
        let version = env!("CARGO_PKG_VERSION");
        (self.print)(format!(
            "Weka CSI Volume migration utility. Stowage {version}"
        ));
    }

    pub(super) fn debug(&self, text: &str) {
        if self.is_verbose {
            self.line(Level::Debug, text);
        }
    }

    pub(super) fn info(&self, text: &str) {
        self.line(Level::Info, text);
    }

    pub(super) fn notice(&self, text: &str) {
        self.line(Level::Notice, text);
    }

    pub(super) fn warn(&mut self, text: &str) {
        self.counts.warnings += 1;
        self.line(Level::Warning, text);
    }

    pub(super) fn fail(&mut self, directory: &str, reason: &str) {
        self.counts.failed.push(directory.to_owned());
        let text = format!("Directory {directory} was not migrated: {reason}");
        self.line(Level::Error, &text);
    }

    pub(super) fn summarize(&self, ending: Ending) {
        for (level, text) in summary(&self.counts, ending, self.is_dry) {
            self.line(level, &text);
        }
    }

    fn line(&self, level: Level, text: &str) {
        (self.print)(line(Timestamp::now(), level, text));
    }
}

/// A line; its time is UTC.
fn line(now: Timestamp, level: Level, text: &str) -> String {
    let now = now.to_zoned(TimeZone::UTC);
    let now = now.strftime("%Y-%m-%d %H:%M:%S");
    format!("[{now}] {level:<10} {text}")
}

/// The last lines.
fn summary(counts: &Counts, ending: Ending, is_dry: bool) -> Vec<(Level, String)> {
    let failed = counts.failed.len();
    let first = match ending {
        Ending::Interrupted => (
            Level::Warning,
            "Migration process was interrupted: run it again to migrate the rest".to_owned(),
        ),
        Ending::Aborted => (
            Level::Error,
            "Migration process was aborted: run it again to migrate the rest".to_owned(),
        ),
        Ending::Reached if is_dry => (
            Level::Notice,
            "Dry run complete: nothing was changed".to_owned(),
        ),
        Ending::Reached if failed > 0 => (
            Level::Error,
            "Migration process is not complete: correct what failed and run it again".to_owned(),
        ),
        Ending::Reached => (Level::Notice, "Migration process complete!".to_owned()),
    };
    let (migrated, skipped) = if is_dry {
        ("would be migrated", "would be skipped")
    } else {
        ("migrated successfully", "skipped")
    };
    let mut lines = vec![
        first,
        (
            Level::Notice,
            format!("{} directories {migrated}", counts.migrated),
        ),
        (
            Level::Notice,
            format!("{} directories {skipped}", counts.skipped),
        ),
    ];
    if counts.warnings > 0 {
        lines.push((Level::Warning, format!("{} warnings", counts.warnings)));
    }
    if failed > 0 {
        let names = counts.failed.join(", ");
        lines.push((
            Level::Error,
            format!("{failed} directories failed: {names}"),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_original() {
        let moment = Timestamp::from_second(1_636_036_384).unwrap();
        for (level, text, expected) in [
            (
                Level::Notice,
                "Successfully mounted filesystem default",
                "[2021-11-04 14:33:04] NOTICE     Successfully mounted filesystem default",
            ),
            (
                Level::Info,
                "Processing directory 'pvc-1'",
                "[2021-11-04 14:33:04] INFO       Processing directory 'pvc-1'",
            ),
        ] {
            assert_eq!(line(moment, level, text), expected);
        }
    }

    fn words(counts: &Counts, ending: Ending, is_dry: bool) -> Vec<String> {
        let lines = summary(counts, ending, is_dry).into_iter();
        lines
            .map(|(level, text)| format!("{level} {text}"))
            .collect()
    }

    #[test]
    fn the_end_is_that_of_the_original_where_all_went_well() {
        let counts = Counts {
            migrated: 1,
            ..Counts::default()
        };
        let expected = [
            "NOTICE Migration process complete!",
            "NOTICE 1 directories migrated successfully",
            "NOTICE 0 directories skipped",
        ];
        assert_eq!(words(&counts, Ending::Reached, false), expected);
    }

    #[test]
    fn the_end_never_says_complete_where_it_is_not() {
        let counts = Counts {
            migrated: 1,
            skipped: 2,
            warnings: 3,
            failed: vec!["a".to_owned(), "b".to_owned()],
        };
        for (ending, is_dry) in [
            (Ending::Reached, false),
            (Ending::Interrupted, false),
            (Ending::Aborted, false),
            (Ending::Interrupted, true),
        ] {
            let words = words(&counts, ending, is_dry);
            assert!(!words[0].contains("complete!") && words[0].contains("run it again"));
            assert_eq!(
                words[3..],
                ["WARNING 3 warnings", "ERROR 2 directories failed: a, b"]
            );
        }
        let dry = words(&counts, Ending::Reached, true);
        assert_eq!(dry[0], "NOTICE Dry run complete: nothing was changed");
        assert_eq!(dry[1], "NOTICE 1 directories would be migrated");
    }
}
