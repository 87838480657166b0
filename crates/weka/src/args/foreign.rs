//! Flags of WEKA's own plugin that change nothing here. All are accepted, so that its manifests work as they are; what one
//! means when it is switched on is in a table.
//!
//! Nothing is pretended: a flag that asks for what this driver does not do stops it with an error.

use clap::builder::ValueParser;
use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use stowage_csi::flags::switch;

use Meaning::Refused;
use table::FLAGS;

mod table;

const HEADING: &str = "Accepted for manifests of WEKA's plugin";

/// One of the flags.
#[derive(Debug)]
struct Flag {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    meaning: Meaning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `--flag`, `--flag=true`, `--flag=false`, with its default.
    Switch { default: bool },
    /// `--flag=TEXT`, with its default.
    Text { default: &'static str },
}

/// What it means when a flag is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The driver works like this in any case.
    AlwaysOn,
    /// The driver does not start: why, and what to do.
    Refused(&'static str),
}

impl Flag {
    fn argument(&self) -> Arg {
        let argument = Arg::new(self.name)
            .long(self.name)
            .help(self.help)
            .help_heading(HEADING)
            .hide_short_help(true);
        match self.kind {
            Kind::Switch { .. } => switch(argument),
            Kind::Text { .. } => argument
                .action(ArgAction::Set)
                .value_name("TEXT")
                .value_parser(ValueParser::string()),
        }
    }

    /// Whether the flag was given with a value other than its default.
    fn is_set(&self, matches: &ArgMatches) -> bool {
        match self.kind {
            Kind::Switch { default } => matches
                .get_one::<bool>(self.name)
                .is_some_and(|value| *value != default),
            Kind::Text { default } => matches
                .get_one::<String>(self.name)
                .is_some_and(|value| value != default),
        }
    }
}

/// The flags that were given with a value other than their default.
#[derive(Clone, Debug, Default)]
pub struct ForeignFlags(Vec<&'static Flag>);

/// A flag asks for what this driver does not do.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: {reason}")]
pub struct Refusal {
    flag: &'static str,
    reason: &'static str,
}

impl Refusal {
    /// Why, without the flag.
    pub(crate) fn reason(&self) -> &'static str {
        self.reason
    }
}

impl ForeignFlags {
    /// Whether the driver may start with them.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        for flag in &self.0 {
            if let Refused(reason) = flag.meaning {
                return Err(Refusal {
                    flag: flag.name,
                    reason,
                });
            }
        }
        Ok(())
    }
}

impl clap::Args for ForeignFlags {
    fn augment_args(command: Command) -> Command {
        FLAGS
            .iter()
            .fold(command, |command, flag| command.arg(flag.argument()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ForeignFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = FLAGS.iter().filter(|flag| flag.is_set(matches));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use Meaning::AlwaysOn;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        flags: ForeignFlags,
    }

    fn parse(word: &str) -> ForeignFlags {
        Typed::try_parse_from(["weka", word]).unwrap().flags
    }

    /// Every way to give a flag its default, and another value.
    fn spellings(flag: &Flag) -> (Vec<String>, Vec<String>) {
        let name = flag.name;
        match flag.kind {
            Kind::Switch { default } => {
                let quiet = vec![
                    format!("--{name}={default}"),
                    format!("--{name}={}", u8::from(default)),
                ];
                let mut loud = vec![format!("--{name}={}", !default)];
                if !default {
                    loud.push(format!("--{name}"));
                }
                (quiet, loud)
            }
            Kind::Text { default } => (
                vec![format!("--{name}={default}")],
                vec![format!("--{name}=7.7")],
            ),
        }
    }

    #[test]
    fn a_default_value_is_accepted_silently() {
        for flag in FLAGS {
            for word in spellings(flag).0 {
                assert!(parse(&word).check().is_ok(), "{word}");
            }
        }
    }

    #[test]
    fn each_flag_that_is_switched_on_has_its_message() {
        let mut refused = Vec::new();
        for flag in FLAGS {
            for word in spellings(flag).1 {
                match (flag.meaning, parse(&word).check()) {
                    (AlwaysOn, Ok(())) => {}
                    (Refused(reason), Err(error)) => {
                        assert_eq!(error.to_string(), format!("--{}: {reason}", flag.name));
                        assert!(
                            reason.contains("leave the flag out"),
                            "the remedy: {reason}"
                        );
                        refused.push(flag.name);
                    }
                    (meaning, outcome) => panic!("{word}: {meaning:?}, but {outcome:?}"),
                }
            }
        }
        refused.dedup();
        // Whoever adds to this list or takes from it changes what people rely on.
        assert_eq!(refused, ["debugpath", "tracingurl"]);
    }
}
