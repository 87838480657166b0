//! Log lines on stderr, as text or JSON, with a level that can change while the process runs.
//!
//! Only this module knows the subscriber; the rest of the product uses the macros of `tracing`.

use std::io::{self, IsTerminal};
use std::str::FromStr;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::go_flags::{Klog, WithoutEffect};

/// Which log lines are written, and how.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct LogArgs {
    /// How log lines look
    #[arg(
        long,
        help_heading = "Logs",
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        alias = "logging-format"
    )]
    pub log_format: Format,

    /// What is logged: a level, or a list such as `info,stowage=debug` (default: info)
    #[arg(
        long,
        help_heading = "Logs",
        env = "STOWAGE_LOG",
        value_name = "DIRECTIVES"
    )]
    pub log_level: Option<Directives>,

    /// What is logged, as a number: from 2 debug, from 5 trace (--log-level wins)
    #[arg(short, long = "v", help_heading = "Logs", value_name = "N")]
    pub verbosity: Option<u8>,

    /// klog's other flags.
    #[command(flatten)]
    pub klog: WithoutEffect<Klog>,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// A log filter that is known to be valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directives(String);

/// Why a log filter is not valid.
#[derive(Debug, thiserror::Error)]
pub enum DirectivesError {
    /// Nothing but white space.
    #[error(
        "the log level is empty: write a level such as `debug`, or a list such as `info,stowage=debug`"
    )]
    Empty,
    /// A word that is not a level. The filter's own grammar would take it for a target and silence everything else.
    #[error(
        "`{0}` is not a log level: write off, error, warn, info, debug, trace, or `target=level`"
    )]
    UnknownLevel(String),
    /// The filter's grammar does not allow it.
    #[error("`{directives}` is not a log filter: {reason}; an example is `info,stowage=debug`")]
    Syntax {
        /// What was written.
        directives: String,
        /// What the parser says.
        reason: String,
    },
}

impl FromStr for Directives {
    type Err = DirectivesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.is_empty() {
            return Err(DirectivesError::Empty);
        }
        for word in text.split(',').map(str::trim) {
            if !word.contains(['=', '[', ']', '{', '}']) && LevelFilter::from_str(word).is_err() {
                return Err(DirectivesError::UnknownLevel(word.to_owned()));
            }
        }
        match EnvFilter::try_new(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(DirectivesError::Syntax {
                directives: text.to_owned(),
                reason: error.to_string(),
            }),
        }
    }
}

impl Directives {
    fn filter(&self) -> EnvFilter {
        EnvFilter::new(&self.0)
    }

    /// klog's numbers, which the manifests of Go sidecars carry: 4 is debug and 5 trace in Kubernetes' own words.
    /// Only our own crates follow: the same detail from HTTP libraries would bury ours.
    fn from_verbosity(number: u8) -> Self {
        let text = match number {
            0..=1 => "info",
            2..=4 => "info,stowage=debug",
            5.. => "info,stowage=trace",
        };
        Self(text.to_owned())
    }
}

/// A second attempt to start logging in one process.
#[derive(Debug, thiserror::Error)]
#[error("logging is already set up in this process")]
pub struct AlreadySetUp;

impl LogArgs {
    /// Starts logging to stderr, for the whole process.
    pub fn init(&self) -> Result<LogLevel, AlreadySetUp> {
        let (filter, level) = reloadable(&self.directives());
        let lines = fmt::layer().with_writer(io::stderr);
        let lines = match self.log_format {
            Format::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
            Format::Json => lines.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry()
            .with(filter)
            .with(lines.with_filter(filter_fn(is_news)))
            .try_init()
            .map_err(|_| AlreadySetUp)?;
        Ok(level)
    }

    fn directives(&self) -> Directives {
        match (&self.log_level, self.verbosity) {
            (Some(directives), _) => directives.clone(),
            (None, number) => Directives::from_verbosity(number.unwrap_or_default()),
        }
    }
}

/// kube says of every request that fails that it does, also of those that are repeated: hundreds of lines while a server
/// is away. Whoever asked gets the error and says what it means.
fn is_news(metadata: &Metadata<'_>) -> bool {
    metadata.target() != "kube_client::client::builder" || *metadata.level() != Level::ERROR
}

fn reloadable(directives: &Directives) -> (reload::Layer<EnvFilter, Registry>, LogLevel) {
    let (layer, handle) = reload::Layer::new(directives.filter());
    (layer, LogLevel { handle })
}

/// The log level of the running process. Clones change the same one.
#[derive(Clone, Debug)]
pub struct LogLevel {
    handle: reload::Handle<EnvFilter, Registry>,
}

impl LogLevel {
    /// The filter in use.
    pub fn current(&self) -> String {
        self.handle
            .with_current(ToString::to_string)
            .unwrap_or_else(|error| error.to_string())
    }

    /// Changes what is logged from now on.
    pub fn set(&self, directives: &Directives) {
        // Fails only when the subscriber is gone, and then nobody logs any more.
        let _ = self.handle.reload(directives.filter());
        tracing::info!(level = %directives.0, "The log level was changed.");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use clap::Parser;
    use tracing::subscriber::DefaultGuard;

    use super::*;

    /// A log level that works without being the process's own: in effect for this thread while the guard lives.
    pub(crate) fn thread_log_level(directives: &str) -> (LogLevel, DefaultGuard) {
        let (filter, level) = reloadable(&directives.parse().unwrap());
        (
            level,
            tracing_subscriber::registry().with(filter).set_default(),
        )
    }

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        log: LogArgs,
    }

    fn directives(arguments: &[&str]) -> String {
        let command = Command::try_parse_from([&["test"], arguments].concat()).unwrap();
        command.log.directives().0
    }

    #[test]
    fn the_level_is_info_unless_told_otherwise() {
        assert_eq!(directives(&[]), "info");
    }

    #[test]
    fn klog_numbers_raise_the_level_of_our_crates_only() {
        for form in [["--v=1"], ["-v=1"], ["-v1"]] {
            assert_eq!(directives(&form), "info");
        }
        assert_eq!(directives(&["-v", "2"]), "info,stowage=debug");
        assert_eq!(directives(&["--v", "4"]), "info,stowage=debug");
        assert_eq!(directives(&["--v=5"]), "info,stowage=trace");
        assert_eq!(directives(&["--v=10"]), "info,stowage=trace");
    }

    #[test]
    fn the_log_level_wins_over_the_number() {
        assert_eq!(directives(&["--v=5", "--log-level=warn"]), "warn");
    }

    #[test]
    fn the_format_is_accepted_under_upstreams_name_too() {
        let command = Command::try_parse_from(["test", "--logging-format=json"]).unwrap();
        assert_eq!(command.log.log_format, Format::Json);
    }

    #[test]
    fn a_misspelt_level_is_refused_instead_of_silencing_everything() {
        let error = Directives::from_str("info,debgu").unwrap_err().to_string();
        assert!(error.contains("`debgu` is not a log level"), "{error}");
    }

    #[test]
    fn a_misspelt_level_of_a_target_is_refused() {
        let error = Directives::from_str("stowage=lots")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`stowage=lots` is not a log filter"),
            "{error}"
        );
    }

    #[test]
    fn an_empty_level_is_refused() {
        assert!(matches!(
            Directives::from_str(" \n"),
            Err(DirectivesError::Empty)
        ));
    }

    #[test]
    fn a_request_that_fails_is_left_to_who_made_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let layer = fmt::layer().with_writer(Arc::new(file.reopen().unwrap()));
        let logging = tracing_subscriber::registry().with(layer.with_filter(filter_fn(is_news)));
        tracing::subscriber::with_default(logging, || {
            tracing::error!(target: "kube_client::client::builder", "failed with error");
            tracing::debug!(target: "kube_client::client::builder", "requesting");
            tracing::error!("what it means");
        });
        let lines = std::fs::read_to_string(&file).unwrap();
        assert!(!lines.contains("failed with error"), "{lines}");
        assert!(
            lines.contains("requesting") && lines.contains("what it means"),
            "{lines}"
        );
    }

    #[test]
    fn a_changed_level_is_in_effect_at_once() {
        let (level, _guard) = thread_log_level("info");
        assert!(!tracing::enabled!(Level::DEBUG));
        level.set(&"debug".parse().unwrap());
        assert!(tracing::enabled!(Level::DEBUG));
        assert_eq!(level.current(), "debug");
    }
}
