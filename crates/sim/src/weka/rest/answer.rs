//! The envelope around every answer.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::page::Page;
use crate::weka::core::Failure;
use crate::weka::state::Refusal;

/// What a handler returns.
pub type Answer = Result<Response, ErrorAnswer>;

/// The answer to a request that failed.
#[derive(Debug)]
pub struct ErrorAnswer(Failure);

impl<F: Into<Failure>> From<F> for ErrorAnswer {
    fn from(failure: F) -> Self {
        Self(failure.into())
    }
}

impl IntoResponse for ErrorAnswer {
    fn into_response(self) -> Response {
        match self.0 {
            Failure::Refused(refused) => refusal(&refused),
            failure @ Failure::Storage(_) => envelope(500, &json!(null), &failure.to_string(), ""),
        }
    }
}

/// Something was asked for, and this is it.
pub fn data(data: &Value) -> Response {
    envelope(200, data, "", "")
}

/// Something was done, and there is nothing to say about it.
pub fn done() -> Response {
    envelope(200, &json!(null), "", "")
}

/// One page of a list.
pub fn list(page: &Page) -> Response {
    envelope(200, &json!(page.items), "", &page.next_token)
}

/// The cluster says no.
pub fn refusal(refusal: &Refusal) -> Response {
    let data = json!({ "exceptionClass": refusal.exception() });
    envelope(refusal.status(), &data, &refusal.to_string(), "")
}

/// A fault says no.
pub fn fault(status: u16) -> Response {
    let message = StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("no reason");
    envelope(status, &json!(null), message, "")
}

fn envelope(status: u16, data: &Value, message: &str, next_token: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = json!({ "data": data, "message": message, "next_token": next_token });
    (status, Json(body)).into_response()
}
