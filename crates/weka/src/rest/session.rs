//! Logging in, once for many callers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use stowage_api::backoff::Backoff;
use stowage_csi::waiting::on_machine;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::call::{Call, Failure};
use super::client::Client;
use super::wire::Tokens;
use super::{ApiError, Deadline, facts};

/// A token is not used in its last seconds: it has to reach the array before it ends.
const MARGIN: Duration = Duration::from_secs(30);

/// How long a token lasts where the array does not say.
const DEFAULT_LIFE: Duration = Duration::from_secs(300);

/// How long a login that was refused is not tried again: the array locks an account for two minutes after a few wrong
/// passwords, for everybody who uses it. A secret that changes is tried at once, by a client of its own.
const REFUSED: Backoff = Backoff {
    first: Duration::from_secs(120),
    longest: Duration::from_secs(60 * 60),
};

/// A login that the array refused.
struct Refused {
    in_a_row: u32,
    until: Instant,
    message: String,
}

impl Refused {
    fn error(&self, client: &Client) -> ApiError {
        let left = self.until.saturating_duration_since(Instant::now());
        ApiError::LoginRefused {
            organization: client.credentials.organization.clone(),
            message: self.message.clone(),
            again_in: left.as_secs().max(1),
        }
    }
}

struct Session {
    access: SecretString,
    refresh: Option<SecretString>,
    valid_until: Instant,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    /// How the last attempt failed, if it did.
    failure: Option<ApiError>,
    refused: Option<Refused>,
}

impl State {
    /// Takes note of a login that failed; one that was refused is not repeated for a while.
    fn note(&mut self, client: &Client, error: ApiError) -> ApiError {
        let ApiError::LoginRefused { message, .. } = error else {
            return error;
        };
        let in_a_row = self.refused.as_ref().map_or(0, |refused| refused.in_a_row) + 1;
        let refused = Refused {
            in_a_row,
            until: Instant::now() + REFUSED.after_with_jitter(in_a_row),
            message,
        };
        let error = refused.error(client);
        self.refused = Some(refused);
        error
    }
}

/// The session of one client.
#[derive(Default)]
pub(super) struct Sessions {
    state: Mutex<State>,
    /// Logins that have ended, successfully or not.
    ended: AtomicU64,
}

impl Sessions {
    /// A token that is valid. One caller logs in; those who wait meanwhile share what comes of it.
    pub(super) async fn token(
        &self,
        client: &Client,
        deadline: Deadline,
    ) -> Result<SecretString, ApiError> {
        let seen = self.ended.load(Ordering::Acquire);
        let late = |_| ApiError::Deadline {
            doing: "log in",
            reason: "another caller's login is under way".to_owned(),
        };
        let mut state = on_machine(timeout(deadline.remaining(), self.state.lock()))
            .await
            .map_err(late)?;
        if let Some(session) = &state.session
            && session.valid_until > Instant::now()
        {
            return Ok(session.access.clone());
        }
        if self.ended.load(Ordering::Acquire) != seen
            && let Some(failure) = &state.failure
        {
            return Err(failure.clone());
        }
        if let Some(refused) = &state.refused
            && refused.until > Instant::now()
        {
            return Err(refused.error(client));
        }
        let refresh = state.session.take().and_then(|session| session.refresh);
        let outcome = log_in(client, refresh, deadline).await;
        self.ended.fetch_add(1, Ordering::Release);
        match outcome {
            Ok(session) => {
                let token = session.access.clone();
                state.session = Some(session);
                state.failure = None;
                state.refused = None;
                Ok(token)
            }
            Err(error) => {
                let error = state.note(client, error);
                state.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Forgets a token that the array refused, unless another caller has replaced it already.
    pub(super) async fn discard(&self, token: &SecretString) {
        let mut state = self.state.lock().await;
        let is_current =
            |session: &mut Session| session.access.expose_secret() == token.expose_secret();
        // Its refresh token goes too: what revoked the one has revoked the other.
        state.session.take_if(is_current);
    }
}

async fn log_in(
    client: &Client,
    refresh: Option<SecretString>,
    deadline: Deadline,
) -> Result<Session, ApiError> {
    if let Some(refresh) = refresh
        && let Some(session) = refreshed(client, &refresh, deadline).await
    {
        return Ok(session);
    }
    let credentials = &client.credentials;
    let body = json!({
        "username": credentials.username.expose_secret(),
        "password": credentials.password.expose_secret(),
        "org": credentials.organization,
    });
    let call = Call::with(Method::POST, "login", "login", "log in");
    let refused = |message| ApiError::LoginRefused {
        organization: credentials.organization.clone(),
        message,
        again_in: 0,
    };
    let answer = match client.send(&call, Some(&body), None, deadline).await {
        Ok(envelope) => envelope,
        Err(
            Failure::Unauthorized(message)
            | Failure::Api(
                ApiError::Forbidden { message, .. }
                | ApiError::Missing { message, .. }
                | ApiError::Refused {
                    status: 400,
                    message,
                    ..
                },
            ),
        ) => return Err(refused(message)),
        Err(Failure::Api(error)) => return Err(error),
    };
    let session =
        session(
            serde_json::from_value(answer.data).map_err(|_| ApiError::Malformed {
                doing: "log in",
                // What is in it may be a token.
                reason: "it contains no tokens".to_owned(),
            })?,
        );
    facts::learn(client, &session.access, deadline).await?;
    Ok(session)
}

/// A session that goes on; none if the array wants a new login.
async fn refreshed(client: &Client, token: &SecretString, deadline: Deadline) -> Option<Session> {
    let call = Call::with(
        Method::POST,
        "login/refresh",
        "login/refresh",
        "renew the login",
    );
    let body = json!({ "refresh_token": token.expose_secret() });
    let answer = client.send(&call, Some(&body), None, deadline).await.ok()?;
    let tokens: Tokens = serde_json::from_value(answer.data).ok()?;
    Some(session(tokens))
}

fn session(tokens: Tokens) -> Session {
    let life = match tokens.expires_in {
        0 => DEFAULT_LIFE,
        seconds => Duration::from_secs(seconds),
    };
    // A token of a few seconds only is used for half of them.
    let usable = life.saturating_sub(MARGIN).max(life / 2);
    Session {
        access: tokens.access_token.into(),
        refresh: tokens.refresh_token.map(Into::into),
        valid_until: Instant::now() + usable,
    }
}
