//! Flags of Go programs that have no meaning here. They are taken, so that manifests written for those programs work as they are, and do nothing.
//!
//! A flag that Go gives a value swallows exactly that value, as Go does: `--kube-api-qps 100` and `--kube-api-qps=100`. A switch
//! takes its value with `=` only.

use std::fmt;
use std::marker::PhantomData;

use clap::builder::{BoolishValueParser, ValueParser};
use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

/// The names of such flags.
pub trait GoFlags {
    /// Those that have a value.
    const VALUES: &[&str];
    /// Those that are on or off.
    const SWITCHES: &[&str];
}

/// Takes the flags of `F` and forgets them. For `#[command(flatten)]`.
pub struct WithoutEffect<F>(PhantomData<fn() -> F>);

impl<F> Default for WithoutEffect<F> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<F> Clone for WithoutEffect<F> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<F> fmt::Debug for WithoutEffect<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WithoutEffect")
    }
}

impl<F: GoFlags> clap::Args for WithoutEffect<F> {
    fn augment_args(command: Command) -> Command {
        let hidden = |name: &&'static str| Arg::new(*name).long(*name).hide(true);
        let values = F::VALUES.iter().map(|name| {
            hidden(name)
                .action(ArgAction::Set)
                .allow_hyphen_values(true)
                .value_parser(ValueParser::string())
        });
        let switches = F::SWITCHES.iter().map(|name| {
            hidden(name)
                .action(ArgAction::Set)
                .value_parser(BoolishValueParser::new())
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
        });
        command.args(values).args(switches)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<F> FromArgMatches for WithoutEffect<F> {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, Error> {
        Ok(Self::default())
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), Error> {
        Ok(())
    }
}

/// The flags of klog and of Kubernetes' logging besides `-v` and `--logging-format`: log lines go to stderr, with the level of the process.
#[derive(Debug)]
pub enum Klog {}

impl GoFlags for Klog {
    const VALUES: &[&str] = &[
        "alsologtostderrthreshold",
        "log-flush-frequency",
        "log-json-info-buffer-size",
        "log-text-info-buffer-size",
        "log_backtrace_at",
        "log_dir",
        "log_file",
        "log_file_max_size",
        "stderrthreshold",
        "vmodule",
    ];
    const SWITCHES: &[&str] = &[
        "add_dir_header",
        "alsologtostderr",
        "legacy_stderr_threshold_behavior",
        "log-json-split-stream",
        "log-text-split-stream",
        "logtostderr",
        "one_output",
        "skip_headers",
        "skip_log_headers",
    ];
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(args_override_self = true)]
    struct Typed {
        #[command(flatten)]
        _klog: WithoutEffect<Klog>,
        #[arg(long)]
        own: bool,
    }

    #[test]
    fn a_value_is_swallowed_and_what_follows_is_not() {
        for line in [
            "x --stderrthreshold 2 --own",
            "x --stderrthreshold=-1 --own",
            "x --logtostderr --own",
            "x --logtostderr=F --logtostderr=T --own",
        ] {
            let typed = Typed::try_parse_from(line.split(' ')).unwrap();
            assert!(typed.own, "{line}");
        }
        for line in ["x --vmodule", "x --logtostderr=perhaps", "x --no_such_flag"] {
            assert!(Typed::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
