//! The command lines of programs that this one takes the place of: `csi-operator -v 5 -alsologtostderr -kubeconfig=...`,
//! `wekafsplugin -csimode=node ...`, `csi-attacher -timeout=600s ...`. Their flags are Go's: one dash is as good as two.

use std::ffi::OsString;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::Args;

/// Programs, and the subcommand that takes the place of each.
const PROGRAMS: [(&str, &[&str]); 2] = [
    ("csi-operator", &["operator"]),
    ("wekafsplugin", &["driver", "weka"]),
];

/// Subcommands that take the place of Go programs, and their flags. The sidecars of upstream have no names here: several of them are one
/// subcommand.
const GO: [&[&str]; 5] = [
    &["operator"],
    &["driver", "weka"],
    &["sidecar", "controller"],
    &["sidecar", "node"],
    &["snapshot-controller"],
];

/// The arguments as this program writes them: unchanged, unless it is called as one of those programs, or by the subcommand
/// for one.
pub fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given: Vec<OsString> = given.collect();
    let Some(program) = given.first() else {
        return given;
    };
    let name = Path::new(program).file_name().unwrap_or_default();
    let called = PROGRAMS.iter().find(|(original, _)| name == *original);
    if let Some((_, words)) = called {
        given.splice(1..1, words.iter().map(OsString::from));
    }
    let meant = GO.iter().find(|words| {
        let begins = given
            .iter()
            .skip(1)
            .zip(**words)
            .all(|(one, other)| one == other);
        begins && given.len() > words.len()
    });
    let Some(words) = meant else {
        return given;
    };
    let mut command = Args::command();
    // With the flags that every command has, such as `--help`.
    command.build();
    let flags = words
        .iter()
        .try_fold(&command, |command, word| command.find_subcommand(word));
    let Some(flags) = flags else {
        return given;
    };
    let begin = given.split_off(1 + words.len());
    given.extend(
        begin
            .into_iter()
            .map(|argument| two_dashes(argument, flags)),
    );
    given
}

/// Go's flags have one dash or two; ours have two, unless they are one letter.
fn two_dashes(argument: OsString, flags: &Command) -> OsString {
    let Some(text) = argument.to_str() else {
        return argument;
    };
    let name = text.strip_prefix('-').unwrap_or_default();
    let name = name.split('=').next().unwrap_or_default();
    let is_flag = name.len() > 1
        && flags.get_arguments().any(|flag| {
            let names = flag.get_long_and_visible_aliases().unwrap_or_default();
            names.contains(&name) || flag.get_all_aliases().unwrap_or_default().contains(&name)
        });
    if is_flag {
        format!("-{text}").into()
    } else {
        argument
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn of(line: &str) -> Vec<OsString> {
        arguments(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_command_line_of_the_original_is_understood() {
        let line = "bin/csi-operator -v 5 -alsologtostderr -kubeconfig=/etc/origin/master/admin.kubeconfig";
        let Command::Operator(args) = Args::parse_from(of(line)).command else {
            panic!("another command");
        };
        assert_eq!(args.service.log.verbosity, Some(5));
        let path = args.kube.kubeconfig.unwrap();
        assert_eq!(path, "/etc/origin/master/admin.kubeconfig");
        let line = "csi-operator -v=2 --kubeconfig x -logtostderr=false -config /etc/csi-operator/config.yaml";
        let Command::Operator(args) = Args::parse_from(of(line)).command else {
            panic!("another command");
        };
        assert_eq!(args.service.log.verbosity, Some(2));
        assert_eq!(
            args.config.unwrap(),
            Path::new("/etc/csi-operator/config.yaml")
        );
    }

    #[test]
    fn other_names_change_nothing() {
        let line = "stowage operator -v 5";
        assert_eq!(
            of(line),
            line.split(' ').map(OsString::from).collect::<Vec<_>>()
        );
    }
}
