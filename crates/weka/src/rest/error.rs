//! Why a call to the array fails.

use crate::secret::SecretError;

/// Why a call to the array fails. Cheap to clone: all who waited for one login hear the same.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ApiError {
    #[error(
        "no endpoint of the Weka cluster answers ({endpoints}): {reason}; check `endpoints` and `scheme` of the secret"
    )]
    Unreachable { endpoints: usize, reason: String },
    #[error("the Weka cluster did not answer in time while the driver was to {doing}: {reason}")]
    Deadline { doing: &'static str, reason: String },
    #[error(
        "the certificate of the Weka cluster is not trusted ({reason}): put its CA's certificate into the secret's key `caCertificate`"
    )]
    Untrusted { reason: String },
    #[error("the Weka cluster does not speak {0}: correct the secret's key `scheme`")]
    Scheme(&'static str),
    #[error("the secret's key `caCertificate` holds no certificate in PEM form: {0}")]
    CaCertificate(String),
    #[error("no HTTP client can be made: {0}")]
    Client(String),
    #[error(
        "the Weka cluster refuses the login: check `username`, `password` and `organization` (`{organization}`) of the secret; it says: {message}"
    )]
    Login {
        organization: String,
        message: String,
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
    #[error("the Weka cluster has release {release}; {what} needs {since} or later")]
    TooOld {
        what: &'static str,
        since: &'static str,
        release: String,
    },
    #[error("nothing was found where the driver was to {doing}: {message}")]
    Missing {
        doing: &'static str,
        message: String,
    },
    #[error("the Weka cluster refuses to {doing} (status {status}): {message}")]
    Refused {
        doing: &'static str,
        status: u16,
        message: String,
    },
    #[error(
        "the Weka cluster's answer cannot be understood, where the driver was to {doing}: {reason}"
    )]
    Malformed { doing: &'static str, reason: String },
    #[error("several filesystems are called `{0}`")]
    Ambiguous(String),
}

/// Why there is no client for a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the legacy secret{} cannot be used: {reason}; the call is repeated, and goes on when the secret is there", name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default())]
    Legacy {
        name: Option<String>,
        reason: String,
    },
}
