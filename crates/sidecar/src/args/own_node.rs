//! The flags of a controller on every node.

use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use stowage_service::duration;

use super::ArgsError;

pub(crate) const HEADING: &str = "One controller per node";

/// Flags of a controller on every node.
#[derive(clap::Args, Clone, Debug)]
#[allow(clippy::struct_field_names, reason = "the names of the flags")]
pub struct OwnNodeArgs {
    /// The node of this process, with --node-deployment
    #[arg(long, value_name = "NODE", env = "NODE_NAME", help_heading = HEADING)]
    pub node_name: Option<String>,

    /// Also provision claims that do not wait for a pod; the first node to write its name on one provisions it
    #[arg(long, value_name = "BOOL", value_parser = BoolishValueParser::new(), action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", help_heading = HEADING)]
    pub node_deployment_immediate_binding: bool,

    /// Pause before taking such a claim, so that not all nodes try at the same time
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "20s", help_heading = HEADING)]
    pub node_deployment_base_delay: Duration,

    /// Longest such pause
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "60s", help_heading = HEADING)]
    pub node_deployment_max_delay: Duration,
}

/// A controller on every node.
#[derive(Clone, Debug)]
pub(crate) struct OwnNode {
    pub(crate) name: String,
    /// How long to wait before taking a claim that no pod waits for; `None`: never take one.
    pub(crate) immediate: Option<(Duration, Duration)>,
}

impl OwnNodeArgs {
    pub(super) fn settings(&self) -> Result<OwnNode, ArgsError> {
        let name = self.node_name.clone().filter(|name| !name.is_empty());
        let delays = (
            self.node_deployment_base_delay,
            self.node_deployment_max_delay,
        );
        Ok(OwnNode {
            name: name.ok_or(ArgsError::NodeName)?,
            immediate: self.node_deployment_immediate_binding.then_some(delays),
        })
    }
}
