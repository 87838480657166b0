//! One client of one cluster under one secret: sends calls, and repeats them elsewhere when an endpoint fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use stowage_api::backoff::Backoff;
use stowage_api::causes::chain;
use stowage_csi::waiting::on_machine;
use tokio::time::{sleep, timeout};

use super::call::{Attempt, Call, Failure, judge, transport};
use super::endpoint::{Endpoint, Endpoints};
use super::facts::Facts;
use super::recent::{Recent, RecentNames};
use super::session::Sessions;
use super::wire::Envelope;
use super::{ApiError, Deadline, trust};
use crate::metrics::{ApiLabels, Metrics};
use crate::secret::{Credentials, Scheme};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often all endpoints are tried before a call fails, and the pauses between.
const ROUNDS: u32 = 5;
const PAUSES: Backoff = Backoff {
    first: Duration::from_millis(200),
    longest: Duration::from_secs(2),
};

/// Pauses differ by this much, so that many callers do not come back all at once.
const JITTER_MILLISECONDS: u64 = 100;

/// No endpoint gets less than this, however many there are.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(2);

/// More pages than any list has.
const MOST_PAGES: usize = 10_000;

/// How calls are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientOptions {
    /// Certificates are not looked at.
    pub(crate) insecure: bool,
    /// Every request goes to another endpoint.
    pub(crate) rotate: bool,
    /// How long one answer may take.
    pub(crate) timeout: Duration,
}

/// A client of one cluster.
pub(crate) struct Client {
    pub(crate) credentials: Credentials,
    pub(super) endpoints: Endpoints,
    pub(super) sessions: Sessions,
    pub(super) filesystems: Recent,
    pub(super) filesystem_names: RecentNames,
    facts: RwLock<Option<Arc<Facts>>>,
    http: reqwest::Client,
    options: ClientOptions,
    metrics: Metrics,
    born: Instant,
    /// Milliseconds after birth.
    used: AtomicU64,
}

impl Client {
    /// Makes a client; nothing is sent yet.
    pub(crate) fn new(
        credentials: Credentials,
        options: ClientOptions,
        metrics: Metrics,
    ) -> Result<Self, ApiError> {
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_danger_accept_invalid_certs(options.insecure);
        if let Some(pem) = &credentials.ca_certificate {
            // Also where it is not used: a secret that cannot be right is told so.
            let trusting = trust::config(pem)?;
            if !options.insecure {
                builder = builder.tls_backend_preconfigured(trusting);
            }
        } else if credentials.scheme == Scheme::Http {
            // Images without any certificates are fine for those who need none.
            builder = builder.tls_certs_only(std::iter::empty());
        }
        let http = builder
            .build()
            .map_err(|error| ApiError::Client(chain(&error)))?;
        Ok(Self {
            endpoints: Endpoints::new(credentials.endpoints.clone()),
            credentials,
            sessions: Sessions::default(),
            filesystems: Recent::default(),
            filesystem_names: RecentNames::default(),
            facts: RwLock::default(),
            http,
            options,
            metrics,
            born: Instant::now(),
            used: AtomicU64::new(0),
        })
    }

    /// How long nobody has used it.
    pub(crate) fn idle(&self) -> Duration {
        let used = Duration::from_millis(self.used.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(used)
    }

    pub(super) fn touch(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.used.store(now, Ordering::Relaxed);
    }

    /// What is known of the cluster, if anybody has logged in yet.
    pub(crate) fn known(&self) -> Option<Arc<Facts>> {
        self.facts.read().clone()
    }

    pub(super) fn learn(&self, facts: Facts) {
        if let Some(old) = self.known()
            && old.release != facts.release
        {
            tracing::info!(cluster = facts.name, from = %old.release, to = %facts.release, "The release of the Weka cluster has changed.");
        }
        *self.facts.write() = Some(Arc::new(facts));
    }

    /// What is known of the cluster, after a login if need be.
    pub(crate) async fn facts(&self, deadline: Deadline) -> Result<Arc<Facts>, ApiError> {
        self.sessions.token(self, deadline).await?;
        self.known().ok_or(ApiError::Malformed {
            doing: "learn about the cluster",
            reason: "the login returned nothing".to_owned(),
        })
    }

    /// Makes a call and returns its `data`. A token that is refused is replaced once.
    pub(crate) async fn call(
        &self,
        call: &Call,
        body: Option<&Value>,
        deadline: Deadline,
    ) -> Result<Envelope, ApiError> {
        let mut renewed = false;
        loop {
            let token = self.sessions.token(self, deadline).await?;
            match self.send(call, body, Some(&token), deadline).await {
                Ok(envelope) => return Ok(envelope),
                Err(Failure::Api(error)) => return Err(error),
                Err(Failure::Unauthorized(_)) if !renewed => {
                    self.sessions.discard(&token).await;
                    renewed = true;
                }
                Err(Failure::Unauthorized(message)) => {
                    let organization = self.credentials.organization.clone();
                    return Err(ApiError::Login {
                        organization,
                        message,
                    });
                }
            }
        }
    }

    /// All pages of a list.
    pub(crate) async fn list(
        &self,
        call: &Call,
        deadline: Deadline,
    ) -> Result<Vec<Value>, ApiError> {
        let malformed = |reason: &str| ApiError::Malformed {
            doing: call.doing,
            reason: reason.to_owned(),
        };
        let mut all = Vec::new();
        let mut next: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let mut page = call.clone();
            if let Some(token) = &next {
                page = page.query("next_token", token);
            }
            let envelope = self.call(&page, None, deadline).await?;
            match envelope.data {
                Value::Array(entries) => all.extend(entries),
                Value::Null => {}
                _ => return Err(malformed("a list was expected")),
            }
            match envelope.next_token.filter(|token| !token.is_empty()) {
                None => return Ok(all),
                token if token == next => return Err(malformed("the list has no end")),
                token => next = token,
            }
        }
        Err(malformed("the list has no end"))
    }

    /// Sends a call to one endpoint after the other until one answers. What waiting does not help against is not waited
    /// for, once every endpoint was asked.
    pub(super) async fn send(
        &self,
        call: &Call,
        body: Option<&Value>,
        token: Option<&SecretString>,
        deadline: Deadline,
    ) -> Result<Envelope, Failure> {
        let mut reason = "there was no time for an attempt".to_owned();
        for round in 1..=ROUNDS {
            let endpoints = self.endpoints.len();
            let mut hopeless = None;
            let mut is_hopeful = false;
            for attempt in 0..endpoints {
                let Some(endpoint) = self.endpoints.current() else {
                    break;
                };
                let Some(time) = self.share(deadline, endpoints - attempt) else {
                    let late = ApiError::Deadline {
                        doing: call.doing,
                        reason,
                    };
                    return Err(hopeless.unwrap_or(Failure::Api(late)));
                };
                match on_machine(timeout(time, self.attempt(&endpoint, call, body, token))).await {
                    Ok(Ok(envelope)) => {
                        if self.options.rotate {
                            self.endpoints.leave(&endpoint);
                        }
                        return Ok(envelope);
                    }
                    Ok(Err(Attempt::Final(failure))) => return Err(failure),
                    Ok(Err(Attempt::Elsewhere(failure))) => hopeless = Some(failure),
                    Ok(Err(Attempt::Transient(why))) => (reason, is_hopeful) = (why, true),
                    Err(_) => {
                        reason = format!("{endpoint} has not answered for {} ms", time.as_millis());
                        is_hopeful = true;
                    }
                }
                tracing::debug!(%endpoint, reason, "An endpoint failed; trying the next one.");
                self.endpoints.leave(&endpoint);
            }
            match hopeless {
                Some(failure) if !is_hopeful || round == ROUNDS => return Err(failure),
                _ => self.pause(round, deadline).await,
            }
        }
        let endpoints = self.endpoints.len();
        Err(Failure::Api(ApiError::Unreachable { endpoints, reason }))
    }

    /// How long one of so many endpoints may take; none if there is no time left.
    fn share(&self, deadline: Deadline, endpoints: usize) -> Option<Duration> {
        let left = u32::try_from(endpoints).unwrap_or(1).max(1);
        let share = (deadline.remaining() / left).max(SHORTEST_ATTEMPT);
        let time = share.min(deadline.remaining()).min(self.options.timeout);
        (!time.is_zero()).then_some(time)
    }

    /// Waits between two rounds.
    async fn pause(&self, round: u32, deadline: Deadline) {
        if round < ROUNDS {
            let jitter = Duration::from_millis(fastrand::u64(..JITTER_MILLISECONDS));
            let pause = PAUSES.after(round) + jitter;
            on_machine(sleep(pause.min(deadline.remaining()))).await;
        }
    }

    async fn attempt(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        body: Option<&Value>,
        token: Option<&SecretString>,
    ) -> Result<Envelope, Attempt> {
        let url = format!(
            "{}://{endpoint}/api/v2/{}",
            self.credentials.scheme.as_str(),
            call.path
        );
        let mut request = self
            .http
            .request(call.method.clone(), url)
            .query(&call.query);
        if let Some(token) = token {
            request = request.bearer_auth(token.expose_secret());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let started = Instant::now();
        let answered = request.send().await;
        let status = answered
            .as_ref()
            .map_or(0, |response| response.status().as_u16());
        self.count(endpoint, call, status, started.elapsed());
        let response = answered.map_err(transport)?;
        let status = response.status();
        let text = response.bytes().await.map_err(transport)?;
        let role = self.known().and_then(|facts| facts.role.clone());
        judge(call, role, status, &text)
    }

    fn count(&self, endpoint: &Endpoint, call: &Call, status: u16, time: Duration) {
        let labels = ApiLabels {
            cluster_guid: self
                .known()
                .map(|facts| facts.guid.clone())
                .unwrap_or_default(),
            endpoint: endpoint.to_string(),
            method: call.method.to_string(),
            url: call.route,
            status,
        };
        self.metrics.api_call(&labels, time);
    }
}
