//! Why a call to the array fails.

use crate::secret::SecretError;

/// Why a call to the array fails. Cheap to clone: all who waited for one login get the same error.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ApiError {
    #[error(
        "no endpoint of the Weka cluster answers ({endpoints} tried): {reason}; check `endpoints` and `scheme` of the secret"
    )]
    Unreachable { endpoints: usize, reason: String },
    #[error("the driver could not {doing} in time: {reason}")]
    Deadline { doing: &'static str, reason: String },
    #[error(
        "the certificate of the Weka cluster is not trusted ({reason}): add the certificate of its CA to the secret as `caCertificate`"
    )]
    Untrusted { reason: String },
    #[error("the Weka cluster does not serve {0}: correct the secret's key `scheme`")]
    Scheme(&'static str),
    #[error("the secret's key `caCertificate` is not a valid PEM certificate: {0}")]
    CaCertificate(String),
    #[error("cannot create an HTTP client: {0}")]
    Client(String),
    #[error(
        "the Weka cluster does not accept the login: check `username`, `password` and `organization` (`{organization}`) of the secret; the cluster says: {message}"
    )]
    Login {
        organization: String,
        message: String,
    },
    #[error(
        "the Weka cluster rejected the login: check `username`, `password` and `organization` (`{organization}`) of the secret; to keep the account from being locked, the driver logs in again when the secret changes, or in {again_in} s; the cluster says: {message}"
    )]
    LoginRefused {
        organization: String,
        message: String,
        /// Seconds.
        again_in: u64,
    },
    #[error(
        "the user of the secret{} may not {doing}: give it the role CSI, ClusterAdmin or OrgAdmin; the cluster says: {message}",
        role.as_ref().map(|role| format!(" (role {role})")).unwrap_or_default()
    )]
    Forbidden {
        doing: &'static str,
        role: Option<String>,
        message: String,
    },
    #[error(
        "the Weka cluster runs release {release}, but {what} needs {since} or later: upgrade it"
    )]
    TooOld {
        what: &'static str,
        since: &'static str,
        release: String,
    },
    #[error("the Weka cluster found nothing when the driver tried to {doing}: {message}")]
    Missing {
        doing: &'static str,
        message: String,
    },
    #[error(
        "the Weka cluster cannot {doing} now: {message}; the call succeeds when it is retried, unless something else has that name"
    )]
    Conflict {
        doing: &'static str,
        message: String,
    },
    #[error("the Weka cluster refused to {doing} (status {status}): {message}")]
    Refused {
        doing: &'static str,
        /// Nothing was to be changed.
        is_question: bool,
        status: u16,
        message: String,
    },
    #[error("the Weka cluster gave an invalid answer when the driver tried to {doing}: {reason}")]
    Malformed { doing: &'static str, reason: String },
    #[error("the Weka cluster has several filesystems named `{0}`")]
    Ambiguous(String),
}

impl ApiError {
    /// Whether a refusal says that a path does not exist: some releases do not answer 404.
    pub(super) fn is_path_missing(&self) -> bool {
        matches!(self, Self::Missing { .. }) || self.says("PATH_NOT_FOUND")
    }

    /// Whether a refusal says that a directory has no quota: some releases do not answer 404.
    pub(super) fn is_quota_missing(&self) -> bool {
        matches!(self, Self::Missing { .. }) || self.says("Directory has no quota")
    }

    /// Whether a refusal says that the cluster has no capacity left.
    pub(crate) fn is_no_room(&self) -> bool {
        let Self::Refused { message, .. } = self else {
            return false;
        };
        let message = message.to_lowercase();
        let is_short = |word: &&str| message.contains(word);
        message.contains("capacity") && ["not enough", "insufficient"].iter().any(is_short)
    }

    /// Whether a refusal is what the caller wanted to know.
    pub(super) fn is_answer(&self) -> bool {
        self.is_path_missing() || self.is_quota_missing()
    }

    fn says(&self, text: &str) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains(text))
    }
}

/// Why there is no client for a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the legacy secret{} cannot be used: {reason}; correct the secret, and the call succeeds when it is retried", name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default())]
    Legacy {
        name: Option<String>,
        reason: String,
    },
}
