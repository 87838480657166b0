//! Logging in, and who one is then.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use serde_json::json;

use super::answer::{Answer, data};
use super::ask::{Body, Caller};
use crate::moment::fresh_secret;
use crate::weka::core::Core;
use crate::weka::state::access::Right;
use crate::weka::state::tokens::{self, Login, Pair};
use crate::weka::state::{Millis, Refusal, State as ClusterState, User};

/// The body of `POST login/refresh`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    refresh_token: String,
}

/// `POST login`.
pub async fn log_in(State(core): State<Arc<Core>>, Body(login): Body<Login>) -> Answer {
    issue(&core, |state, now| {
        core.lockouts.lock().log_in(state, &login, now)
    })
    .await
}

/// `POST login/refresh`.
pub async fn refresh(State(core): State<Arc<Core>>, Body(body): Body<Refresh>) -> Answer {
    issue(&core, |state, now| {
        tokens::refresh(state, &body.refresh_token, now).cloned()
    })
    .await
}

async fn issue(
    core: &Core,
    who: impl FnOnce(&ClusterState, Millis) -> Result<User, Refusal>,
) -> Answer {
    let pair = Pair {
        access: fresh_secret(24),
        refresh: fresh_secret(24),
    };
    let expiry = core.expiry();
    core.change(|state, moment| {
        let user = who(state, moment.now)?;
        Ok((tokens::issue(&user, &pair, expiry, moment.now), ()))
    })
    .await?;
    Ok(data(&json!({
        "access_token": pair.access,
        "refresh_token": pair.refresh,
        "token_type": "Bearer",
        "expires_in": expiry.access.as_secs(),
    })))
}

/// `GET users/whoami`.
pub async fn whoami(State(core): State<Arc<Core>>, caller: Caller) -> Answer {
    caller.may(Right::Know)?;
    let user = &caller.user;
    let organization = core.read(|state, _| {
        state
            .organizations
            .get(&user.org_id.to_string())
            .map(|organization| organization.name.clone())
    });
    Ok(data(&json!({
        "org_id": user.org_id,
        "username": user.username,
        "source": "Internal",
        "uid": user.uid,
        "role": user.role,
        "org_name": organization,
    })))
}

/// `GET security/defaultTokensExpiry`.
pub async fn tokens_expiry(State(core): State<Arc<Core>>, caller: Caller) -> Answer {
    caller.may(Right::Know)?;
    let expiry = core.expiry();
    Ok(data(&json!({
        "access_token_expiry": expiry.access.as_secs(),
        "refresh_token_expiry": expiry.refresh.as_secs(),
    })))
}
