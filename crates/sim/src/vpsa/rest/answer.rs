//! The envelope around every answer, and how refusals look.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::page::Page;
use crate::vpsa::core::{Core, Failure};
use crate::vpsa::release::Feature;
use crate::vpsa::state::Refusal;

/// What a handler returns.
pub type Answer = Result<Response, Wrong>;

/// Why there is no other answer.
#[derive(Debug)]
pub struct Wrong {
    failure: Failure,
    /// Whether this version calls a message a message.
    modern: bool,
}

impl Wrong {
    /// As this array says it.
    pub fn of(core: &Core, failure: impl Into<Failure>) -> Self {
        let modern = core.read(|state, _| state.vpsa().release.has(Feature::Message));
        Self {
            failure: failure.into(),
            modern,
        }
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        match self.failure {
            Failure::Refused(refusal) => refused(&refusal, self.modern),
            failure @ Failure::Storage(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, failure.to_string()).into_response()
            }
        }
    }
}

/// Something was asked for or done, and this is told about it.
pub fn done(core: &Core, mut fields: Value) -> Response {
    fields["status"] = json!(0);
    let texts = core.controls.knobs().numbers_as_texts;
    let modern = core.read(|state, _| state.vpsa().release.has(Feature::Numbers));
    if texts.unwrap_or(!modern) {
        spell_out(&mut fields);
    }
    Json(json!({ "response": fields })).into_response()
}

/// One page of a list.
pub fn list(core: &Core, name: &str, page: &Page) -> Response {
    done(core, json!({ name: page.items, "count": page.count }))
}

/// The array says no, with HTTP 200.
pub fn refused(refusal: &Refusal, modern: bool) -> Response {
    let mut fields = json!({ "status": refusal.code() });
    let place = if modern { "message" } else { "status_msg" };
    fields[place] = json!(refusal.to_string());
    Json(json!({ "response": fields })).into_response()
}

/// There is no such path.
pub async fn no_such_path(State(core): State<Arc<Core>>) -> Response {
    Wrong::of(&core, Refusal::NoSuchPath).into_response()
}

/// A fault says no.
pub fn fault(status: u16) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, status.canonical_reason().unwrap_or("no reason")).into_response()
}

/// Numbers as texts, as older versions have them.
fn spell_out(value: &mut Value) {
    match value {
        Value::Number(number) => *value = Value::String(number.to_string()),
        Value::Array(values) => values.iter_mut().for_each(spell_out),
        Value::Object(fields) => fields.values_mut().for_each(spell_out),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
