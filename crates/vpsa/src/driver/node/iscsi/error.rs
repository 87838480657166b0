//! Why a session is not there.

use std::path::PathBuf;

use stowage_api::causes::chain;
use stowage_host::exec::ExecError;

/// Why a session is not there.
#[derive(Debug, thiserror::Error)]
pub enum IscsiError {
    /// The tool.
    #[error("cannot {doing} at {target}")]
    Tool {
        /// What it was to do.
        doing: &'static str,
        /// With which target.
        target: String,
        /// What it said.
        #[source]
        source: ExecError,
    },
    /// The array does not let this node in.
    #[error(
        "the VPSA refuses the login to {0}: its CHAP secret may have changed, or no volume is attached to this node's Server record"
    )]
    Authentication(String),
    /// The settings cannot be written.
    #[error("cannot write the settings of {target}: is open-iscsi's directory of records `{}`?", path.display())]
    Record {
        /// The target.
        target: String,
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// The disk is attached to another name than this node logs in under.
    #[error(
        "the disk is attached to the initiator {wanted}, and the session with {target} is of {found}: wait until the control plane has \
         attached it to that, or restart the node if the session is older than its initiator's name"
    )]
    OtherName {
        /// The target.
        target: String,
        /// The initiator that the disk is attached to.
        wanted: String,
        /// The initiator that has a session.
        found: String,
    },
    /// No portal lets this node in.
    #[error("cannot log in at any portal of {target}: {}", reasons.join("; "))]
    NoPortal {
        /// The target.
        target: String,
        /// Of each portal.
        reasons: Vec<String>,
    },
}

impl IscsiError {
    /// Why nobody lets us in. What all portals say is said once.
    pub(super) fn of_portals(target: &str, mut failures: Vec<Self>) -> Self {
        let is_refusal = |error: &Self| matches!(error, Self::Authentication(_));
        if failures.len() == 1 || (!failures.is_empty() && failures.iter().all(is_refusal)) {
            return failures.swap_remove(0);
        }
        Self::NoPortal {
            target: target.to_owned(),
            reasons: failures.iter().map(|error| chain(error)).collect(),
        }
    }
}
