//! The client of the control API, for tests.

use std::time::Duration;

use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ErrorBody, Restart, SeenRequest};
use crate::faults::Fault;
use crate::moment::millis;

/// Why the control API did not do something.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It does not answer.
    #[error("the control API of the simulator does not answer")]
    Unreachable(#[from] reqwest::Error),
    /// It says no.
    #[error("the simulator says: {0}")]
    Refused(String),
}

type Result<T, E = ControlError> = std::result::Result<T, E>;

/// The client of an array's control API.
#[derive(Clone, Debug)]
pub struct Client {
    base: String,
    http: reqwest::Client,
}

/// It speaks plain HTTP: no certificates are needed, and an image may have none. Each request has a connection of its own: one that
/// is kept may be closed by the array at the moment when it is used again.
fn plain_client() -> reqwest::Client {
    let builder = reqwest::Client::builder().tls_certs_only(std::iter::empty());
    let builder = builder.pool_max_idle_per_host(0);
    builder.build().expect("no part of this can be wrong")
}

impl Client {
    /// For the array whose `--control` is at this URL.
    pub fn new(url: impl Into<String>) -> Self {
        // Its constructor wants a TLS provider even for plain HTTP.
        stowage_service::client::install_crypto_provider();
        Self {
            base: url.into().trim_end_matches('/').to_owned(),
            http: plain_client(),
        }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Closes an endpoint and its connections.
    pub async fn stop_endpoint(&self, number: usize) -> Result<()> {
        self.post(&format!("endpoints/{number}/stop"), &()).await
    }

    /// Opens it again, at the same port.
    pub async fn start_endpoint(&self, number: usize) -> Result<()> {
        self.post(&format!("endpoints/{number}/start"), &()).await
    }

    /// Puts a fault into effect; returns its number.
    pub async fn add_fault(&self, fault: Fault<impl Serialize>) -> Result<u64> {
        self.call(Method::POST, "faults", Some(&fault)).await
    }

    /// How many faults still wait for requests that fit: one that has struck as often as it was to does not, whomever it holds.
    pub async fn faults_left(&self) -> Result<usize> {
        let left: Vec<serde_json::Value> = self.get("faults").await?;
        Ok(left.len())
    }

    /// Ends all faults.
    pub async fn clear_faults(&self) -> Result<()> {
        let sent = self.send(Method::DELETE, "faults", None::<&()>).await;
        sent.map(drop)
    }

    /// The array reads everything from its data directory again; nothing answers for `down`.
    pub async fn restart(&self, down: Duration) -> Result<()> {
        let down = millis(down);
        self.post("restart", &Restart { down }).await
    }

    /// The requests to the REST API since the last call.
    pub async fn take_requests(&self) -> Result<Vec<SeenRequest>> {
        self.call(Method::DELETE, "requests", None::<&()>).await
    }

    /// Changes the knobs.
    pub(crate) async fn turn_knobs<K>(&self, change: impl FnOnce(&mut K)) -> Result<()>
    where
        K: Serialize + DeserializeOwned,
    {
        let mut knobs: K = self.call(Method::GET, "knobs", None::<&()>).await?;
        change(&mut knobs);
        self.put("knobs", &knobs).await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(Method::GET, path, None::<&()>).await
    }

    pub(crate) async fn post(&self, path: &str, body: &impl Serialize) -> Result<()> {
        self.send(Method::POST, path, Some(body)).await.map(drop)
    }

    pub(crate) async fn put(&self, path: &str, body: &impl Serialize) -> Result<()> {
        self.send(Method::PUT, path, Some(body)).await.map(drop)
    }

    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T> {
        Ok(self.send(method, path, body).await?.json().await?)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<reqwest::Response> {
        let mut request = self.http.request(method, format!("{}/{path}", self.base));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let text = response.text().await?;
        let message = serde_json::from_str(&text)
            .map_or(format!("{status}: {text}"), |c: ErrorBody| c.message);
        Err(ControlError::Refused(message))
    }
}
