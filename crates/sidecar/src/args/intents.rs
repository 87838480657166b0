//! The flags about volumes that were left half made.

use std::collections::BTreeSet;
use std::time::Duration;

use stowage_service::duration;

const HEADING: &str = "Intents";

/// Flags about intents.
#[derive(clap::Args, Clone, Debug)]
pub struct IntentArgs {
    /// Finish or delete every volume that a killed process left half made, then exit; run this before going back to
    /// the Go sidecars
    #[arg(long, help_heading = HEADING)]
    pub resolve_intents_and_exit: bool,

    /// Print the volumes that are being made or were left half made, and exit; nothing is changed
    #[arg(long, help_heading = HEADING, conflicts_with = "resolve_intents_and_exit")]
    pub list_intents: bool,

    /// A volume whose claim is gone is not deleted because of an intent that is older than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "24h", help_heading = HEADING)]
    pub intent_age_limit: Duration,

    /// Delete this half made volume although its intent is old or of another cluster; names as --list-intents prints
    /// them, separated by commas
    #[arg(long, value_name = "VOLUME", value_delimiter = ',', help_heading = HEADING)]
    pub force_intent: Vec<String>,
}

/// What intents are good for.
#[derive(Clone, Debug)]
pub(crate) struct Intents {
    /// Older ones delete nothing by themselves.
    pub(crate) age_limit: Duration,
    /// The volumes that a person has decided about.
    pub(crate) forced: BTreeSet<String>,
}

/// Something to do once, instead of working until shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    List,
    Resolve,
}

impl IntentArgs {
    pub(super) fn settings(&self) -> Intents {
        Intents {
            age_limit: self.intent_age_limit,
            forced: self.force_intent.iter().cloned().collect(),
        }
    }

    pub(crate) fn errand(&self) -> Option<Errand> {
        if self.list_intents {
            return Some(Errand::List);
        }
        self.resolve_intents_and_exit.then_some(Errand::Resolve)
    }
}
