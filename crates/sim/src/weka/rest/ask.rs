//! Who asks, with which body and which query.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRef, FromRequest, FromRequestParts, Query, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::answer::ErrorAnswer;
use crate::weka::core::Core;
use crate::weka::release::Feature;
use crate::weka::state::access::{self, Right};
use crate::weka::state::{Refusal, User, tokens};

/// Somebody who is logged in.
pub struct Caller {
    /// Who.
    pub user: User,
    core: Arc<Core>,
}

impl Caller {
    /// Refuses users whose role lacks a right.
    pub fn may(&self, right: Right) -> Result<(), Refusal> {
        self.core
            .read(|state, _| access::check(state, &self.user, right))
    }

    /// Refuses everybody if this version lacks a feature; a path that is not there is not there for anybody.
    pub fn needs(&self, feature: Feature) -> Result<(), Refusal> {
        let there = self
            .core
            .read(|state, _| state.cluster().release.has(feature));
        there.then_some(()).ok_or(Refusal::NoSuchPath)
    }
}

impl<S> FromRequestParts<S> for Caller
where
    Arc<Core>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ErrorAnswer;

    async fn from_request_parts(parts: &mut Parts, shared: &S) -> Result<Self, ErrorAnswer> {
        let core: Arc<Core> = FromRef::from_ref(shared);
        let token = parts
            .headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "));
        let user = core.read(|state, now| tokens::authenticate(state, token, now).cloned())?;
        Ok(Self { user, core })
    }
}

/// A JSON body; what is wrong with it is reported as the array does, by field.
pub struct Body<T>(pub T);

impl<S, T> FromRequest<S> for Body<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = ErrorAnswer;

    async fn from_request(request: Request, shared: &S) -> Result<Self, ErrorAnswer> {
        let bytes = Bytes::from_request(request, shared)
            .await
            .map_err(|error| Refusal::Invalid(error.to_string()))?;
        serde_json::from_slice(&bytes)
            .map(Body)
            .map_err(|error| Refusal::Invalid(format!("body: {error}")).into())
    }
}

/// Query parameters; a version that knows none ignores them.
pub struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// The value of one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether a filter lets `value` through.
    pub fn allow(&self, name: &str, value: &str) -> bool {
        self.get(name).is_none_or(|wanted| wanted == value)
    }
}

impl<S> FromRequestParts<S> for Parameters
where
    Arc<Core>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ErrorAnswer;

    async fn from_request_parts(parts: &mut Parts, shared: &S) -> Result<Self, ErrorAnswer> {
        let core: Arc<Core> = FromRef::from_ref(shared);
        if !core.read(|state, _| state.cluster().release.has(Feature::QueryParameters)) {
            return Ok(Self(BTreeMap::new()));
        }
        let query = Query::try_from_uri(&parts.uri)
            .map_err(|error| Refusal::Invalid(format!("query: {error}")))?;
        Ok(Self(query.0))
    }
}
