//! Every `stowage` command of our pages is one that the program takes.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, Parser};
use devcluster::testing::documented::{Call, refusals};

use super::Args;
use crate::original;

/// The arguments of a command, with flags in place of its variables: tests share one environment.
fn arguments(call: &Call) -> Vec<OsString> {
    let program = Args::command();
    let mut command = &program;
    while let Some(next) = call.words.iter().find_map(|it| command.find_subcommand(it)) {
        command = next;
    }
    let flags = call.variables.iter().filter_map(|(name, value)| {
        let mut flags = command.get_arguments();
        let flag = flags.find(|flag| flag.get_env().is_some_and(|it| it == name.as_str()))?;
        Some(format!("--{}={value}", flag.get_long()?))
    });
    let words = call.words.iter().cloned().chain(flags);
    original::arguments(words.map(OsString::from))
}

#[test]
fn every_command_of_the_pages_is_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let parse = |call: &Call| {
        let parsed = Args::try_parse_from(arguments(call));
        parsed.map(drop).map_err(|error| error.to_string())
    };
    let (count, refusals) = refusals(&root, "stowage", parse).unwrap();
    assert!(refusals.is_empty(), "{}", refusals.join("\n"));
    assert!(count >= 20, "only {count} commands were found");
}
