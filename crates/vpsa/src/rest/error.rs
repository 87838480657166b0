//! Why a call to an array fails.

use stowage_rest::TrustError;

use super::refusal::Refusal;

/// Why a call to an array fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// Nobody answers.
    #[error(
        "the VPSA at {address} does not answer: {reason}; check `hostname`, and that the network lets the driver through"
    )]
    Unreachable {
        /// Where it should be.
        address: String,
        /// What the network said.
        reason: String,
    },
    /// All calls that may be under way at once are, and none of them is answered.
    #[error("the VPSA at {address} has not answered the calls before this one for {seconds} s")]
    Silent {
        /// Where it is.
        address: String,
        /// For how long.
        seconds: u64,
    },
    /// It answers, and is not ready to work.
    #[error("the VPSA at {address} is not available (HTTP status {status}): {message}")]
    Unavailable {
        /// Where it is.
        address: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// The caller's time was over.
    #[error("the VPSA did not {doing} in time: {reason}")]
    Deadline {
        /// What was asked of it.
        doing: &'static str,
        /// How far it got.
        reason: String,
    },
    /// It is not who it should be.
    #[error(
        "the certificate of the VPSA at {address} is not trusted ({reason}): put the certificate of its authority, or its own, into `tls.caCertificate`"
    )]
    Untrusted {
        /// Where it is.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// HTTP where HTTPS is expected, or the reverse.
    #[error(
        "the VPSA at {address} does not speak {scheme}: correct `hostname` (its port) or `tls.enabled`"
    )]
    Scheme {
        /// Where it is.
        address: String,
        /// What was expected.
        scheme: &'static str,
    },
    /// The access key is wrong.
    #[error(
        "the VPSA at {address} refuses the access key: write a valid one into the token's Secret or `token`; it says: {message}"
    )]
    Credentials {
        /// Where it is.
        address: String,
        /// What it said.
        message: String,
    },
    /// It says no.
    #[error("the VPSA refuses to {doing} (status {code}): {message}")]
    Refused {
        /// What was asked of it.
        doing: &'static str,
        /// What that means.
        refusal: Refusal,
        /// Its own code.
        code: i64,
        /// Its own words.
        message: String,
    },
    /// Nobody can make sense of its answer.
    #[error("the VPSA's answer cannot be understood, where it was to {doing}: {reason}")]
    Malformed {
        /// What was asked of it.
        doing: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no HTTP client.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The access key cannot be sent.
    #[error(
        "the access key holds characters that cannot be sent: it must be the text that the VPSA shows, without line breaks"
    )]
    AccessKey,
}

impl ApiError {
    /// What the array meant, if it said no.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(*refusal),
            Self::Credentials { .. } => Some(Refusal::Credentials),
            Self::Unreachable { .. }
            | Self::Silent { .. }
            | Self::Unavailable { .. }
            | Self::Deadline { .. }
            | Self::Untrusted { .. }
            | Self::Scheme { .. }
            | Self::Malformed { .. }
            | Self::Trust(_)
            | Self::AccessKey => None,
        }
    }

    /// Whether the array has said no for certain, so that nothing came of the call.
    pub fn is_final(&self) -> bool {
        match self.refusal() {
            Some(
                Refusal::Credentials
                | Refusal::NotFound
                | Refusal::NameTaken
                | Refusal::NoRoom
                | Refusal::Invalid,
            ) => true,
            // In words that may mean anything.
            Some(Refusal::Attached | Refusal::HasSnapshots | Refusal::Busy | Refusal::Other)
            | None => false,
        }
    }

    /// Whether what the call was about is not there.
    pub fn is_not_found(&self) -> bool {
        self.refusal() == Some(Refusal::NotFound)
    }

    /// Whether the array's true state is unknown: network, credentials, TLS, or nonsense in place of answers.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Refused { .. } => false,
            Self::Unreachable { .. }
            | Self::Silent { .. }
            | Self::Unavailable { .. }
            | Self::Deadline { .. }
            | Self::Untrusted { .. }
            | Self::Scheme { .. }
            | Self::Credentials { .. }
            | Self::Malformed { .. }
            | Self::Trust(_)
            | Self::AccessKey => true,
        }
    }
}
