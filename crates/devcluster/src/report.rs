//! What a person sees while long work is done: bars on a terminal, plain lines otherwise,
//! nothing at all when a test is at work.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressStyle};

/// How often a long step says on a plain output that it is still alive.
const PLAIN_INTERVAL: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Bars,
    Lines,
    Silent,
}

/// Where progress goes, and the file that commands print to.
pub struct Report {
    style: Style,
    /// Steps may be under way at the same time.
    bars: MultiProgress,
    log: PathBuf,
}

impl Report {
    /// Bars on a terminal, lines otherwise. `log` takes what commands print.
    pub fn to_person(log: PathBuf) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let style = if terminal { Style::Bars } else { Style::Lines };
        Self::new(style, log)
    }

    /// For tests: says nothing.
    pub fn silent(log: PathBuf) -> Self {
        Self::new(Style::Silent, log)
    }

    fn new(style: Style, log: PathBuf) -> Self {
        Self {
            style,
            bars: MultiProgress::new(),
            log,
        }
    }

    /// The file that commands print to.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Begins a step; it ends with [`Step::done`], or as failed when it is dropped.
    pub fn step(&self, what: impl Into<String>) -> Step {
        let what = what.into();
        let bar = match self.style {
            Style::Bars => {
                let bar = self.bars.add(ProgressBar::new_spinner());
                bar.set_style(spinner_style());
                bar.set_message(what.clone());
                bar.enable_steady_tick(Duration::from_millis(120));
                bar
            }
            Style::Lines | Style::Silent => ProgressBar::hidden(),
        };
        if self.style == Style::Lines {
            line(&format!("... {what}"));
        }
        Step {
            style: self.style,
            what,
            bars: self.bars.clone(),
            bar,
            started: Instant::now(),
            printed: Cell::new(Instant::now()),
            over: false,
        }
    }

    /// One line of news outside of any step.
    pub fn say(&self, news: &str) {
        if self.style != Style::Silent {
            self.bars.suspend(|| line(news));
        }
    }
}

/// A step under way.
pub struct Step {
    style: Style,
    what: String,
    bars: MultiProgress,
    bar: ProgressBar,
    started: Instant,
    printed: Cell<Instant>,
    over: bool,
}

impl Step {
    /// How far it is: a bar on a terminal, a line every quarter of a minute otherwise.
    pub fn progress(&self, done: u64, total: u64) {
        let done = done.min(total);
        if self.bar.length() != Some(total) {
            self.bar.set_length(total);
            self.bar.set_style(bar_style());
        }
        self.bar.set_position(done);
        self.print_sometimes(|| format!("{}%", done * 100 / total.max(1)));
    }

    /// What it is doing just now.
    pub fn note(&self, detail: &str) {
        self.bar.set_message(format!("{}: {detail}", self.what));
        self.print_sometimes(|| detail.to_owned());
    }

    /// The step is over and went well; `outcome` may add a word.
    pub fn done(mut self, outcome: &str) {
        self.over = true;
        let detail = if outcome.is_empty() {
            String::new()
        } else {
            format!(": {outcome}")
        };
        self.end("ok ", &detail);
    }

    fn print_sometimes(&self, news: impl FnOnce() -> String) {
        if self.style == Style::Lines && self.printed.get().elapsed() >= PLAIN_INTERVAL {
            self.printed.set(Instant::now());
            let seconds = self.started.elapsed().as_secs();
            line(&format!(
                "    {} ({}, {seconds} s so far)",
                self.what,
                news()
            ));
        }
    }

    fn end(&self, mark: &str, detail: &str) {
        self.bar.finish_and_clear();
        self.bars.remove(&self.bar);
        if self.style != Style::Silent {
            let took = took(self.started.elapsed());
            let text = format!("{mark} {}{detail} ({took})", self.what);
            self.bars.suspend(|| line(&text));
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.over {
            self.end("-- ", ": not finished");
        }
    }
}

/// `0.4 s`, `12.3 s`, `5 minutes`.
pub fn took(time: Duration) -> String {
    if time < Duration::from_secs(120) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} ({} s)", HumanDuration(time), time.as_secs())
    }
}

fn spinner_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn bar_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg} [{bar:30}] {percent}% {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

/// A closed standard error must not end the work.
fn line(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
