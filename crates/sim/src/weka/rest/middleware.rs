//! Faults and latency.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::sleep;

use super::answer;
use crate::control::SeenRequest;
use crate::endpoints::{EndpointNumber, Unsent};
use crate::weka::control::Trouble;
use crate::weka::core::Core;

/// Lets every request wait for the latency, and those that a fault fits get into trouble.
pub async fn trouble(
    State(core): State<Arc<Core>>,
    Extension(EndpointNumber(endpoint)): Extension<EndpointNumber>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().to_string();
    // What is left of the path below `/api/v2`.
    let path = request.uri().path().trim_matches('/').to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    sleep(Duration::from_millis(core.knobs().latency)).await;
    let trouble = core.controls.faults.strike(&method, &path, endpoint);
    // A client that hangs up does not stop work that has started: the array would not notice either.
    let work = {
        let trouble = trouble.clone();
        tokio::spawn(async move { answer(trouble, request, next).await })
    };
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

async fn answer(trouble: Option<Trouble>, request: Request, next: Next) -> Response {
    match trouble {
        None => next.run(request).await,
        Some(Trouble::Refuse(status)) => answer::fault(status),
        Some(Trouble::DoneButRefused(status)) => {
            next.run(request).await;
            answer::fault(status)
        }
        Some(Trouble::Drop) => unsent(answer::done()),
        Some(Trouble::DoneButDropped) => unsent(next.run(request).await),
        Some(Trouble::Delay(millis)) => {
            sleep(Duration::from_millis(millis)).await;
            next.run(request).await
        }
        Some(Trouble::DoneButDelayed(millis)) => {
            let response = next.run(request).await;
            sleep(Duration::from_millis(millis)).await;
            response
        }
    }
}

fn unsent(mut response: Response) -> Response {
    response.extensions_mut().insert(Unsent);
    response
}
