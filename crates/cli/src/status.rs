//! `stowage status`: CSI drivers x nodes.
//!
//! [`facts`] asks the cluster, [`report`] makes sense of the answers, [`table`] draws the result. Only
//! the first does I/O.

mod facts;
mod report;
mod table;
#[cfg(test)]
mod tests;
mod version;

use crate::args::{Format, StatusArgs};
use crate::{cluster, output};

/// Prints the state of the cluster that `args` name.
pub async fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let cluster = cluster::connect(&args.access).await?;
    let facts = facts::gather(&cluster).await?;
    let report = report::build(&facts);
    let text = match args.output {
        Format::Table => table::draw(&report, output::width()),
        Format::Json => serde_json::to_string_pretty(&report)? + "\n",
    };
    output::print(&text)
}
