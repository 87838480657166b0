//! The command line of the original operator: `csi-operator -v 5 -alsologtostderr -kubeconfig=...`.

use std::ffi::OsString;
use std::path::Path;

/// The name under which the original operator was called.
const NAME: &str = "csi-operator";

/// The arguments as this program writes them: unchanged, unless it is called as the original operator.
pub fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given = given.peekable();
    let is_original = given.peek().is_some_and(|program| {
        let name = Path::new(program).file_name();
        name.is_some_and(|name| name == NAME)
    });
    if !is_original {
        return given.collect();
    }
    let mut arguments: Vec<OsString> = given.next().into_iter().collect();
    arguments.push("operator".into());
    arguments.extend(given.map(two_dashes));
    arguments
}

/// Go's flags have one dash or two; ours have two, unless they are one letter.
fn two_dashes(argument: OsString) -> OsString {
    let Some(text) = argument.to_str() else {
        return argument;
    };
    let is_long = text.strip_prefix('-').is_some_and(|name| {
        let name = name.split('=').next().unwrap_or_default();
        name.len() > 1 && name.starts_with(|c: char| c.is_ascii_alphabetic())
    });
    if is_long {
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
