//! Who asks, with which parameters, and for how long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Query, Request};
use axum::http::header::CONTENT_TYPE;
use serde_json::Value;

use super::answer::Wrong;
use crate::moment::{Millis, now};
use crate::vpsa::core::{Core, Failure};
use crate::vpsa::state::{Parameters, Refusal};

/// How long a call is held if the client does not say.
const PATIENCE: Duration = Duration::from_secs(15);

/// A call of somebody who was let in.
pub struct Asked {
    /// What it says.
    pub parameters: Parameters,
    core: Arc<Core>,
    timeout: Duration,
}

impl Asked {
    /// What is wrong, as this array says it.
    pub fn wrong(&self, failure: impl Into<Failure>) -> Wrong {
        Wrong::of(&self.core, failure)
    }

    /// Waits until something is done, as long as the client does.
    pub async fn wait(&self, done_at: Millis) -> Result<(), Wrong> {
        let rest = Duration::from_millis(done_at.saturating_sub(now()));
        if rest > self.timeout {
            tokio::time::sleep(self.timeout).await;
            return Err(self.wrong(Refusal::Submitted));
        }
        tokio::time::sleep(rest).await;
        Ok(())
    }
}

impl FromRequest<Arc<Core>> for Asked {
    type Rejection = Wrong;

    async fn from_request(request: Request, core: &Arc<Core>) -> Result<Self, Wrong> {
        let wrong = |refusal| Wrong::of(core, refusal);
        let shown = request.headers().get("X-Access-Key");
        let shown = shown
            .and_then(|key| key.to_str().ok())
            .map(ToOwned::to_owned);
        let parameters = read(request).await.map_err(wrong)?;
        let key = shown.or(parameters.get("access_key").map(ToOwned::to_owned));
        let known =
            core.read(|state, _| key.is_some_and(|key| state.access_keys.contains_key(&key)));
        if !known {
            return Err(wrong(Refusal::Credentials));
        }
        let timeout = match parameters.get("timeout") {
            None => PATIENCE,
            Some(seconds) => Duration::from_secs(seconds.parse().map_err(|_| {
                wrong(Refusal::invalid(
                    "timeout",
                    "it must be a number of seconds",
                ))
            })?),
        };
        Ok(Self {
            parameters,
            core: Arc::clone(core),
            timeout,
        })
    }
}

/// The query, and the body: JSON, or a form.
async fn read(request: Request) -> Result<Parameters, Refusal> {
    let mut parameters = Parameters::default();
    let query: Query<Vec<(String, String)>> = Query::try_from_uri(request.uri())
        .map_err(|error| Refusal::invalid("query", error.to_string()))?;
    for (name, value) in &query.0 {
        parameters.add(name, &Value::from(value.as_str()));
    }
    let content = request.headers().get(CONTENT_TYPE);
    let is_json = content.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let body = Bytes::from_request(request, &())
        .await
        .map_err(|error| Refusal::invalid("body", error.to_string()))?;
    // Some clients say what they would send, and send nothing.
    if is_json && !body.is_empty() {
        let fields: BTreeMap<String, Value> = serde_json::from_slice(&body)
            .map_err(|error| Refusal::invalid("body", error.to_string()))?;
        for (name, value) in &fields {
            parameters.add(name, value);
        }
    } else if !body.is_empty() {
        let form: Vec<(String, String)> = serde_urlencoded::from_bytes(&body)
            .map_err(|error| Refusal::invalid("body", error.to_string()))?;
        for (name, value) in &form {
            parameters.add(name, &Value::from(value.as_str()));
        }
    }
    Ok(parameters)
}
