//! Every `./x` command of our pages is one that it takes.

use std::path::Path;

use clap::Parser;
use devcluster::testing::documented::{Call, refusals};

use super::Arguments;

#[test]
fn every_command_of_the_pages_is_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let parse = |call: &Call| {
        let parsed = Arguments::try_parse_from(&call.words);
        parsed.map(drop).map_err(|error| error.to_string())
    };
    let (count, refusals) = refusals(&root, "./x", parse).unwrap();
    assert!(refusals.is_empty(), "{}", refusals.join("\n"));
    assert!(count >= 20, "only {count} commands were found");
}
