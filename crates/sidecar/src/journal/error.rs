//! What goes wrong with a journal.

use std::sync::Arc;

use super::document::Unreadable;

/// What goes wrong with a journal.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// A rule is missing.
    #[error(
        "the intent journal needs `{verb}` on `leases` of coordination.k8s.io in namespace `{namespace}`: add the rule \
         to the Role of this process ({said})"
    )]
    Forbidden {
        /// What was not allowed.
        verb: &'static str,
        /// Where.
        namespace: String,
        /// The server's own words: they name the user.
        said: String,
    },
    /// The server does not answer, or not as it should.
    #[error("the intent journal in Lease `{lease}` cannot be used: {said}")]
    Unreachable {
        /// The Lease, as `namespace/name`.
        lease: String,
        /// What the server or the client says.
        said: String,
    },
    /// The content is not what a journal looks like.
    #[error(
        "the intent journal in Lease `{lease}` cannot be read: it names volumes that may exist on the driver without \
         an object, so nothing was changed. {remedy}"
    )]
    Unreadable {
        /// The Lease, as `namespace/name`.
        lease: String,
        /// What to do.
        remedy: String,
        /// What is wrong with it.
        #[source]
        source: Arc<Unreadable>,
    },
    /// The intent alone is larger than the journal.
    #[error(
        "the intent for claim `{claim}` takes {bytes} bytes and the journal holds {limit}: shorten the parameters of \
         its classes, or name fewer parts of the cluster with allowedTopologies, --strict-topology or \
         --immediate-topology=false"
    )]
    TooLarge {
        /// The claim, as `namespace/name`.
        claim: String,
        /// Its size, with all that it refers to.
        bytes: usize,
        /// The most there is.
        limit: usize,
    },
    /// Another process opened the journal.
    #[error(
        "`{holder}` has taken over the intent journal in Lease `{lease}`, so two processes work for one driver: start \
         both with --leader-election, or stop one of them"
    )]
    TakenOver {
        /// The Lease, as `namespace/name`.
        lease: String,
        /// The other process.
        holder: String,
    },
    /// The intent has no text.
    #[error("the intent cannot be written down")]
    Unwritable(#[source] Arc<serde_json::Error>),
    /// The process ends.
    #[error("the intent journal is closed because the process ends")]
    Stopped,
}
