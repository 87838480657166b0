//! Faults and latency.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer;
use crate::faults::Struck;
use crate::trouble::{answered, strike};
use crate::vpsa::control::Trouble;
use crate::vpsa::control::trouble::Own;
use crate::vpsa::core::Core;
use crate::vpsa::state::Refusal;

/// Counts every request and lets it wait for the latency; those that a fault fits get into trouble.
pub async fn trouble(State(core): State<Arc<Core>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().trim_matches('/');
    core.count(request.method().as_str(), path);
    let latency = core.controls.knobs().latency;
    answered(
        &core.controls,
        latency,
        (request, next),
        answer::fault,
        meet,
    )
    .await
}

async fn meet(struck: Struck<Trouble>, request: Request, next: Next) -> Response {
    let ended = struck.ended;
    match struck.trouble {
        Trouble::Common(trouble) => {
            let struck = Struck { trouble, ended };
            strike(struck, request, next, answer::fault).await
        }
        Trouble::Own(trouble) => own(trouble, request, next).await,
    }
}

async fn own(trouble: Own, request: Request, next: Next) -> Response {
    let is_done = match trouble {
        Own::DoneButSay { .. } | Own::DoneButGarbage | Own::Submitted => true,
        Own::Say { .. } | Own::Garbage | Own::SubmittedAndForgotten => false,
    };
    if is_done {
        next.run(request).await;
    }
    match trouble {
        Own::Say { status, message } | Own::DoneButSay { status, message } => {
            let code = status;
            Refusal::Fault { code, message }.into_response()
        }
        Own::Garbage | Own::DoneButGarbage => "{\"response\": {\"stat".into_response(),
        Own::Submitted | Own::SubmittedAndForgotten => Refusal::Submitted.into_response(),
    }
}
