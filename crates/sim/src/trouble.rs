//! Requests of the REST APIs on their way: latency, faults, and what was seen of them.

use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::sleep;

use crate::control::{Controls, SeenRequest};
use crate::endpoints::{EndpointNumber, Unsent};
use crate::faults::{Struck, Trouble};
use crate::moment::Millis;

/// How an array says no without a reason of its own.
pub type Refuse = fn(u16) -> Response;

/// Lets a request wait for the latency and be answered, or get into the trouble of a fault that fits. Its path is what is
/// left below the API's own.
pub async fn answered<K, T, F>(
    controls: &Controls<K, T>,
    latency: Millis,
    (request, next): (Request, Next),
    refuse: Refuse,
    strike: impl FnOnce(Struck<T>, Request, Next) -> F + Send + 'static,
) -> Response
where
    K: Clone,
    T: Clone + Send + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let method = request.method().to_string();
    let path = request.uri().path().trim_matches('/').to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let endpoint = request.extensions().get::<EndpointNumber>();
    let endpoint = endpoint.map_or(0, |EndpointNumber(number)| *number);
    sleep(Duration::from_millis(latency)).await;
    let struck = controls.faults.strike(&method, &path, endpoint);
    // A client that hangs up does not stop work that has started: the array would not notice either.
    let work = tokio::spawn(async move {
        match struck {
            None => next.run(request).await,
            Some(struck) => strike(struck, request, next).await,
        }
    });
    let response = work.await.unwrap_or_else(|_| refuse(500));
    controls.saw(SeenRequest {
        method,
        path,
        query,
        status: response.status().as_u16(),
        endpoint,
    });
    response
}

/// What becomes of a request that gets into trouble.
pub async fn strike(
    struck: Struck<Trouble>,
    request: Request,
    next: Next,
    refuse: Refuse,
) -> Response {
    match struck.trouble {
        Trouble::Refuse(status) => refuse(status),
        Trouble::DoneButRefused(status) => {
            next.run(request).await;
            refuse(status)
        }
        Trouble::Drop => unsent("".into_response()),
        Trouble::DoneButDropped => unsent(next.run(request).await),
        Trouble::Delay(millis) => {
            sleep(Duration::from_millis(millis)).await;
            next.run(request).await
        }
        Trouble::DoneButDelayed(millis) => {
            let response = next.run(request).await;
            sleep(Duration::from_millis(millis)).await;
            response
        }
        Trouble::Hold => {
            struck.ended.cancelled().await;
            next.run(request).await
        }
    }
}

fn unsent(mut response: Response) -> Response {
    response.extensions_mut().insert(Unsent);
    response
}
