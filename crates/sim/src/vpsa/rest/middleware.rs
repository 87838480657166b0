//! Faults and latency.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::sleep;

use super::answer;
use crate::control::SeenRequest;
use crate::endpoints::{EndpointNumber, Unsent};
use crate::faults;
use crate::vpsa::control::Trouble;
use crate::vpsa::control::trouble::Own;
use crate::vpsa::core::Core;
use crate::vpsa::state::Refusal;

/// Lets every request wait for the latency, and those that a fault fits get into trouble.
pub async fn trouble(
    State(core): State<Arc<Core>>,
    Extension(EndpointNumber(endpoint)): Extension<EndpointNumber>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().to_string();
    // What is left of the path below `/api`.
    let path = request.uri().path().trim_matches('/').to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    core.count(&method, &path);
    sleep(Duration::from_millis(core.controls.knobs().latency)).await;
    let trouble = core.controls.faults.strike(&method, &path, endpoint);
    // A client that hangs up does not stop work that has started: the array would not notice either.
    let work = tokio::spawn(async move {
        match trouble {
            None => next.run(request).await,
            Some(Trouble::Common(trouble)) => common(trouble, request, next).await,
            Some(Trouble::Own(trouble)) => own(trouble, request, next).await,
        }
    });
    let response = work.await.unwrap_or_else(|_| answer::fault(500));
    core.controls.saw(SeenRequest {
        method,
        path,
        query,
        status: response.status().as_u16(),
        endpoint,
    });
    response
}

async fn common(trouble: faults::Trouble, request: Request, next: Next) -> Response {
    match trouble {
        faults::Trouble::Refuse(status) => answer::fault(status),
        faults::Trouble::DoneButRefused(status) => {
            next.run(request).await;
            answer::fault(status)
        }
        faults::Trouble::Drop => unsent("".into_response()),
        faults::Trouble::DoneButDropped => unsent(next.run(request).await),
        faults::Trouble::Delay(millis) => {
            sleep(Duration::from_millis(millis)).await;
            next.run(request).await
        }
        faults::Trouble::DoneButDelayed(millis) => {
            let response = next.run(request).await;
            sleep(Duration::from_millis(millis)).await;
            response
        }
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

fn unsent(mut response: Response) -> Response {
    response.extensions_mut().insert(Unsent);
    response
}
