//! Sends calls to one array, a few at a time.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use stowage_csi::waiting::on_machine;
use stowage_rest::{Address, Deadline, Trust, Unanswered, http_client};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

use super::api::Api;
use super::call::Call;
use super::envelope::{Answer, Asked, judge};
use super::error::ApiError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How much longer than the array the client waits, so that the array's own "not finished yet" arrives.
const MARGIN: Duration = Duration::from_secs(5);

/// How often a call is tried that nobody answered, and how long the first pause between is.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// An array that has answered none of its calls for so long answers no further one either: it does not hold up those who have
/// something to do elsewhere.
const SILENCE: Duration = Duration::from_secs(10);

/// Answers are no longer than this: an array that sends more is not one.
const LONGEST_ANSWER: usize = 64 << 20;

/// How an array is called.
#[derive(Clone)]
pub struct ClientOptions {
    /// Where it is.
    pub address: Address,
    /// Whether it is who it should be.
    pub trust: Trust,
    /// What it lets us in with.
    pub access_key: SecretString,
    /// How long the array may work on one call before it answers that it has not finished.
    pub timeout: Duration,
    /// How many calls are under way at once.
    pub concurrency: usize,
}

impl ClientOptions {
    /// Three minutes, and eight calls at once.
    pub fn new(address: Address, trust: Trust, access_key: SecretString) -> Self {
        Self {
            address,
            trust,
            access_key,
            timeout: Duration::from_secs(180),
            concurrency: 8,
        }
    }
}

/// A client of one array.
pub struct Client {
    http: reqwest::Client,
    /// `https://array:443/api/`.
    base: String,
    /// As people wrote it.
    address: String,
    access_key: SecretString,
    header: HeaderValue,
    timeout: Duration,
    calls: Semaphore,
    /// How many of them there are.
    concurrency: usize,
    /// When the array last answered, or was first called after it had answered everything.
    answered: Mutex<Instant>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Client")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// One attempt that got no answer.
struct Failed {
    error: ApiError,
    /// Whether a change may have been made all the same.
    sent: bool,
}

impl Client {
    /// Makes a client; nothing is sent yet.
    pub fn new(options: ClientOptions) -> Result<Self, ApiError> {
        let mut header = HeaderValue::from_str(options.access_key.expose_secret())
            .map_err(|_| ApiError::AccessKey)?;
        header.set_sensitive(true);
        let port = options.address.port_or(options.trust.port());
        let host = options.address.host();
        Ok(Self {
            http: http_client(&options.trust, CONNECT_TIMEOUT)?,
            base: format!("{}://{host}:{port}/api/", options.trust.scheme()),
            address: options.address.to_string(),
            access_key: options.access_key,
            header,
            timeout: options.timeout,
            calls: Semaphore::new(options.concurrency.max(1)),
            concurrency: options.concurrency.max(1),
            answered: Mutex::new(Instant::now()),
        })
    }

    /// Where the array is, as it was written.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The calls, for somebody who has this much time.
    pub fn within(self: &Arc<Self>, time: Duration) -> Api {
        Api::new(Arc::clone(self), Deadline::after(time))
    }

    /// The right to make a call. Somebody in a hurry gives up when the array is silent, and not only slow.
    pub(super) async fn turn(
        &self,
        call: &Call,
        deadline: Deadline,
        is_hurried: bool,
    ) -> Result<SemaphorePermit<'_>, ApiError> {
        let mut turn = pin!(self.calls.acquire());
        loop {
            // Whoever can go goes, whatever became of the calls before.
            let left = if is_hurried {
                SILENCE.saturating_sub(self.answered.lock().elapsed())
            } else {
                deadline.remaining()
            };
            let left = left.min(deadline.remaining());
            if let Ok(Ok(turn)) = on_machine(timeout(left, &mut turn)).await {
                if self.calls.available_permits() + 1 == self.concurrency {
                    *self.answered.lock() = Instant::now();
                }
                return Ok(turn);
            }
            if deadline.remaining().is_zero() {
                return Err(ApiError::Deadline {
                    doing: call.doing,
                    reason: "too many other calls are under way".to_owned(),
                });
            }
            let silence = self.answered.lock().elapsed();
            if is_hurried && silence >= SILENCE {
                return Err(ApiError::Silent {
                    address: self.address.clone(),
                    seconds: silence.as_secs(),
                });
            }
        }
    }

    /// Makes a call. One that nobody answered is made again if it only looks, or was never sent.
    pub(super) async fn call(&self, call: &Call, deadline: Deadline) -> Result<Answer, ApiError> {
        let late = |reason: String| ApiError::Deadline {
            doing: call.doing,
            reason,
        };
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let failed = match self.attempt(call, deadline).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let again = attempt < ATTEMPTS && (call.is_read() || !failed.sent);
            if !again || !is_transient(&failed.error) {
                return Err(failed.error);
            }
            if deadline.remaining() <= pause {
                return Err(late(failed.error.to_string()));
            }
            tracing::debug!(array = self.address, path = call.path, error = %failed.error, "A call is made again.");
            // Many callers that were left without an answer at once must not come back at once.
            on_machine(sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0))).await;
            pause *= 2;
        }
        Err(late("it was not tried".to_owned()))
    }

    async fn attempt(&self, call: &Call, deadline: Deadline) -> Result<Answer, Failed> {
        let remaining = deadline.remaining();
        // The array takes whole seconds and needs at least one.
        let working = self.timeout.min(remaining).as_secs().max(1);
        let waiting = (Duration::from_secs(working) + MARGIN).min(remaining);
        let started = Instant::now();
        let answered = on_machine(timeout(waiting, self.exchange(call, working))).await;
        let took = started.elapsed().as_millis();
        let address = self.address.clone();
        let (status, body) = match answered {
            Ok(Ok(answer)) => {
                *self.answered.lock() = Instant::now();
                answer
            }
            Ok(Err(unanswered)) => {
                return Err(self.unanswered(unanswered));
            }
            Err(_) => {
                let reason = format!("no answer after {took} ms");
                let error = ApiError::Unreachable { address, reason };
                return Err(Failed { error, sent: true });
            }
        };
        tracing::debug!(array = address, method = %call.method, path = call.path, status = status.as_u16(), took, "Answered.");
        let asked = Asked {
            doing: call.doing,
            address: &self.address,
            access_key: self.access_key.expose_secret(),
        };
        judge(asked, status, &body).map_err(|error| Failed { error, sent: true })
    }

    async fn exchange(
        &self,
        call: &Call,
        working: u64,
    ) -> Result<(reqwest::StatusCode, Vec<u8>), Unanswered> {
        let url = format!("{}{}.json", self.base, call.path);
        let mut request = self
            .http
            .request(call.method.clone(), url)
            .header("X-Access-Key", self.header.clone());
        let mut parameters = call.parameters.clone();
        parameters.insert("timeout".to_owned(), working.into());
        request = if call.is_read() {
            request.query(&as_query(&parameters))
        } else {
            request.json(&parameters)
        };
        let mut response = request.send().await.map_err(Unanswered::of)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(Unanswered::of)? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST_ANSWER {
                let reason = "the answer has no end".to_owned();
                return Err(Unanswered::Lost(reason));
            }
        }
        Ok((status, body))
    }

    fn unanswered(&self, unanswered: Unanswered) -> Failed {
        let address = self.address.clone();
        let (error, sent) = match unanswered {
            Unanswered::Untrusted(reason) => (ApiError::Untrusted { address, reason }, false),
            Unanswered::Scheme(scheme) => (ApiError::Scheme { address, scheme }, false),
            Unanswered::NotSent(reason) => (ApiError::Unreachable { address, reason }, false),
            Unanswered::Lost(reason) => (ApiError::Unreachable { address, reason }, true),
        };
        Failed { error, sent }
    }
}

/// Whether time alone may mend it.
fn is_transient(error: &ApiError) -> bool {
    matches!(
        error,
        ApiError::Unreachable { .. } | ApiError::Unavailable { .. }
    )
}

fn as_query(parameters: &Map<String, Value>) -> Vec<(&str, String)> {
    parameters
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => (name.as_str(), text.clone()),
            value => (name.as_str(), value.to_string()),
        })
        .collect()
}
