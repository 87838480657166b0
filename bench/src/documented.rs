//! Every `./x bench` command of our pages is one that it takes: `./x` hands its arguments on as they are.

use std::path::Path;

use clap::Parser;
use devcluster::testing::documented::{Call, refusals};

use super::Args;

/// What `./x` measures without this program.
const OF_XTASK: &str = "footprint";

#[test]
fn every_command_of_the_pages_is_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let parse = |call: &Call| {
        let is = |at: usize, word: &str| call.words.get(at).is_some_and(|it| it == word);
        if !is(1, "bench") || is(2, OF_XTASK) {
            return Ok(());
        }
        let parsed = Args::try_parse_from(&call.words[1..]);
        parsed.map(drop).map_err(|error| error.to_string())
    };
    let (_, refusals) = refusals(&root, "./x", parse).unwrap();
    assert!(refusals.is_empty(), "{}", refusals.join("\n"));
}
