//! `stowage takeover weka --check`: what becomes of an installation of WEKA's own plugin.
//!
//! [`read`] asks the cluster, `stowage_weka::takeover` decides, [`text`] draws the result. Only the first does I/O, and it only
//! reads.

mod read;
mod text;

use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use serde_json::Value;
use stowage_weka::takeover::{Request, check};

use crate::args::{Args, TakeoverFormat, TakeoverWekaArgs};
use crate::{cluster, output};

/// What an instance looks like where nothing carries over.
const SAMPLE: &str = include_str!("../../../deploy/samples/weka.yaml");

/// The cluster was read, and something stands in the way.
const OBSTRUCTED: u8 = 3;

/// Prints what becomes of the driver that `args` name.
pub async fn weka(args: TakeoverWekaArgs) -> anyhow::Result<ExitCode> {
    let cluster = cluster::connect(&args.access).await?;
    let facts = read::gather(&cluster, &args.driver_name).await?;
    let mut command = Args::command();
    command.build();
    let flags = ["driver", "weka"]
        .iter()
        .try_fold(&command, |command, word| command.find_subcommand(word))
        .context("the command has no flags")?;
    let request = Request {
        instance: args.instance,
        flags,
        sample: serde_saphyr::from_multiple(SAMPLE).context("the sample cannot be read")?,
    };
    let report = check(&facts, request);
    let text = match args.output {
        TakeoverFormat::Table => text::draw(&report)?,
        TakeoverFormat::Json => serde_json::to_string_pretty(&report)? + "\n",
        TakeoverFormat::Manifest => yaml(&report.manifest)?,
    };
    output::print(&text)?;
    Ok(if report.clear {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(OBSTRUCTED)
    })
}

/// Documents, one after the other.
fn yaml(documents: &[Value]) -> anyhow::Result<String> {
    let mut text = String::new();
    for document in documents {
        let document = serde_saphyr::to_string(document).context("cannot write YAML")?;
        if !text.is_empty() {
            text.push_str("---\n");
        }
        text.push_str(&document);
    }
    Ok(text)
}
