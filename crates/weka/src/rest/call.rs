//! One call, and what its answer means.

use reqwest::{Method, StatusCode};
use stowage_rest::Unanswered;

use super::ApiError;
use super::wire::Envelope;

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// For metrics: the path with names in place of values.
    pub(crate) route: &'static str,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    /// For messages: "may not ...", "refuses to ...".
    pub(crate) doing: &'static str,
}

impl Call {
    pub(crate) fn get(route: &'static str, path: impl Into<String>, doing: &'static str) -> Self {
        Self {
            method: Method::GET,
            route,
            path: path.into(),
            query: Vec::new(),
            doing,
        }
    }

    pub(crate) fn with(
        method: Method,
        route: &'static str,
        path: impl Into<String>,
        doing: &'static str,
    ) -> Self {
        Self {
            method,
            ..Self::get(route, path, doing)
        }
    }

    pub(crate) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }
}

/// An answer of the array that is not a success.
pub(super) enum Failure {
    /// The token is not valid any more.
    Unauthorized(String),
    Api(ApiError),
}

/// What an answer means. 503 and its likes come from an endpoint that is on its way up or down.
pub(super) fn judge(
    call: &Call,
    role: Option<String>,
    status: StatusCode,
    text: &[u8],
) -> Result<Envelope, Attempt> {
    let doing = call.doing;
    let parsed = serde_json::from_slice::<Envelope>(text);
    if status.is_success() {
        return parsed.map_err(|error| {
            let reason = error.to_string();
            Attempt::Final(Failure::Api(ApiError::Malformed { doing, reason }))
        });
    }
    let message = parsed.map_or_else(|_| shortened(text), |envelope| said(&envelope, text));
    let error = match status {
        StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::BAD_GATEWAY
        | StatusCode::GATEWAY_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS => {
            return Err(Attempt::Transient(format!(
                "status {}: {message}",
                status.as_u16()
            )));
        }
        StatusCode::UNAUTHORIZED => {
            return Err(Attempt::Final(Failure::Unauthorized(message)));
        }
        StatusCode::FORBIDDEN => ApiError::Forbidden {
            doing,
            role,
            message,
        },
        StatusCode::NOT_FOUND => ApiError::Missing { doing, message },
        StatusCode::CONFLICT => ApiError::Conflict { doing, message },
        status => ApiError::Refused {
            doing,
            is_question: call.method == Method::GET,
            status: status.as_u16(),
            message,
        },
    };
    // An endpoint in trouble of its own says 500, and so do some releases where something is missing.
    let is_broken = status == StatusCode::INTERNAL_SERVER_ERROR && !error.is_answer();
    let failure = Failure::Api(error);
    Err(if is_broken {
        Attempt::Elsewhere(failure)
    } else {
        Attempt::Final(failure)
    })
}

/// How one attempt failed.
pub(super) enum Attempt {
    /// Another endpoint, or the same one later, may do better.
    Transient(String),
    /// Another endpoint may do better; this one will not, however long one waits.
    Elsewhere(Failure),
    Final(Failure),
}

/// A request that was not answered. Waiting helps neither against a certificate that is not trusted nor against the wrong
/// scheme, but another endpoint may have a better one.
pub(super) fn transport(error: reqwest::Error) -> Attempt {
    let error = match Unanswered::of(error) {
        Unanswered::Untrusted(reason) => ApiError::Untrusted { reason },
        Unanswered::Scheme(scheme) => ApiError::Scheme(scheme),
        Unanswered::NotSent(reason) | Unanswered::Lost(reason) => {
            return Attempt::Transient(reason);
        }
    };
    Attempt::Elsewhere(Failure::Api(error))
}

/// What the array said: its message, and the rest of the answer where that names the error.
fn said(envelope: &Envelope, text: &[u8]) -> String {
    let mut said = envelope.message.clone().unwrap_or_default();
    if !envelope.data.is_null() || said.is_empty() {
        let rest = if envelope.data.is_null() {
            shortened(text)
        } else {
            shortened(envelope.data.to_string().as_bytes())
        };
        said = format!("{said} {rest}");
    }
    said.trim().to_owned()
}

fn shortened(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(300).collect()
}
