//! Why a request was not answered.

use stowage_api::causes::chain;

/// What is said by those who understand the other end as little as it understands them: rustls to HTTP, hyper to TLS.
const NOT_TLS: &str = "corrupt message";
const NOT_HTTP: &str = "invalid HTTP version";

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The other end is not who it should be; time does not mend that.
    Untrusted(String),
    /// The other end does not speak HTTPS (or not HTTP, as the word says); time does not mend that either.
    Scheme(&'static str),
    /// Nothing was sent: nobody was there, or nobody could be found.
    NotSent(String),
    /// The request may have arrived, and may have been carried out.
    Lost(String),
}

impl Unanswered {
    /// Reads it from the error of a request; the URL does not appear, it may hold what is nobody's business.
    pub fn of(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let reason = chain(&error);
        if reason.contains("certificate") {
            Self::Untrusted(reason)
        } else if reason.contains(NOT_TLS) {
            Self::Scheme("https")
        } else if reason.contains(NOT_HTTP) {
            Self::Scheme("http")
        } else if error.is_connect() {
            Self::NotSent(reason)
        } else {
            Self::Lost(reason)
        }
    }
}
