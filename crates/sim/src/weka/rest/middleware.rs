//! Faults and latency.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::answer;
use crate::trouble::{answered, strike};
use crate::weka::core::Core;

/// Lets every request wait for the latency, and those that a fault fits get into trouble.
pub async fn trouble(State(core): State<Arc<Core>>, request: Request, next: Next) -> Response {
    let latency = core.knobs().latency;
    let strike = |struck, request, next| strike(struck, request, next, answer::fault);
    answered(
        &core.controls,
        latency,
        (request, next),
        answer::fault,
        strike,
    )
    .await
}
