//! What answers the control API. Bodies are JSON, whatever is said of them; an answer without content is 204.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Controls, ErrorBody, Restart, SeenRequest};
use crate::endpoints::{self, EndpointError, Endpoints};
use crate::faults::{ActiveFault, Fault};
use crate::store::StoreError;

/// How long what is said may be.
const LONGEST_BODY: usize = 1 << 20;

/// An array that is controlled.
pub trait Controlled: Send + Sync + 'static {
    /// What can be turned.
    type Knobs: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What can go wrong.
    type Trouble: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// What is turned, what goes wrong, what was asked.
    fn controls(&self) -> &Controls<Self::Knobs, Self::Trouble>;
    /// The ports of its REST API.
    fn endpoints(&self) -> &Endpoints;
    /// What its REST API answers.
    fn router(&self) -> &Router;
    /// Forgets everything but the data directory, and reads that again.
    fn reload(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

type Shared<C> = State<Arc<C>>;
type Done = Result<StatusCode, ControlFailure>;

/// The paths that all simulators have.
pub fn router<C: Controlled>(array: Arc<C>) -> Router {
    Router::new()
        .route("/endpoints/{number}/start", post(start_endpoint::<C>))
        .route("/endpoints/{number}/stop", post(stop_endpoint::<C>))
        .route(
            "/faults",
            get(list_faults::<C>)
                .post(add_fault::<C>)
                .delete(clear_faults::<C>),
        )
        .route("/faults/{id}", delete(remove_fault::<C>))
        .route("/knobs", get(get_knobs::<C>).put(set_knobs::<C>))
        .route("/restart", post(restart::<C>))
        .route("/requests", delete(take_requests::<C>))
        .with_state(array)
}

/// Answers on a port until it is told to stop; returns the URL.
pub async fn serve(
    address: SocketAddr,
    router: Router,
    stop: &CancellationToken,
) -> Result<String, EndpointError> {
    let unavailable = |source| EndpointError::Unavailable { address, source };
    let listener = TcpListener::bind(address).await.map_err(unavailable)?;
    let bound = listener.local_addr().map_err(unavailable)?;
    let router = router.layer(map_request(as_json));
    tokio::spawn(endpoints::answer_all(listener, None, router, stop.clone()));
    Ok(format!("http://{bound}"))
}

/// `kubectl create --raw` does not say of what type a body is, and sends one where nobody reads it: the connection, which its
/// proxy uses again, would be closed.
async fn as_json(request: Request) -> Result<Request, StatusCode> {
    let (mut parts, body) = request.into_parts();
    let body = to_bytes(body, LONGEST_BODY).await;
    let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    let json = HeaderValue::from_static("application/json");
    parts.headers.insert(CONTENT_TYPE, json);
    Ok(Request::from_parts(parts, Body::from(body)))
}

async fn start_endpoint<C: Controlled>(State(array): Shared<C>, Path(number): Path<usize>) -> Done {
    array.endpoints().start(number, array.router()).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn stop_endpoint<C: Controlled>(State(array): Shared<C>, Path(number): Path<usize>) -> Done {
    array.endpoints().stop(number)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn list_faults<C: Controlled>(State(array): Shared<C>) -> Json<Vec<ActiveFault<C::Trouble>>> {
    Json(array.controls().faults.list())
}

async fn add_fault<C: Controlled>(
    State(array): Shared<C>,
    Json(fault): Json<Fault<C::Trouble>>,
) -> Json<u64> {
    Json(array.controls().faults.add(fault))
}

async fn clear_faults<C: Controlled>(State(array): Shared<C>) -> StatusCode {
    array.controls().faults.clear();
    StatusCode::NO_CONTENT
}

async fn remove_fault<C: Controlled>(State(array): Shared<C>, Path(id): Path<u64>) -> StatusCode {
    array.controls().faults.remove(id);
    StatusCode::NO_CONTENT
}

async fn get_knobs<C: Controlled>(State(array): Shared<C>) -> Json<C::Knobs> {
    Json(array.controls().knobs())
}

async fn set_knobs<C: Controlled>(
    State(array): Shared<C>,
    Json(knobs): Json<C::Knobs>,
) -> StatusCode {
    array.controls().set_knobs(knobs);
    StatusCode::NO_CONTENT
}

async fn take_requests<C: Controlled>(State(array): Shared<C>) -> Json<Vec<SeenRequest>> {
    Json(array.controls().take_requests())
}

/// Stops all endpoints, forgets everything but the data directory, and starts those that ran again.
async fn restart<C: Controlled>(State(array): Shared<C>, Json(restart): Json<Restart>) -> Done {
    let before = array.endpoints().status();
    array.endpoints().stop_all();
    array.reload().await?;
    tokio::time::sleep(Duration::from_millis(restart.down)).await;
    for (number, endpoint) in before.iter().enumerate() {
        if endpoint.running {
            array.endpoints().start(number, array.router()).await?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Why something cannot be done.
enum ControlFailure {
    Endpoint(EndpointError),
    Store(StoreError),
}

impl From<EndpointError> for ControlFailure {
    fn from(error: EndpointError) -> Self {
        Self::Endpoint(error)
    }
}

impl From<StoreError> for ControlFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl IntoResponse for ControlFailure {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Self::Endpoint(error @ EndpointError::Unknown(_)) => {
                (StatusCode::NOT_FOUND, error.to_string())
            }
            Self::Endpoint(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            Self::Store(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        (status, Json(ErrorBody { message })).into_response()
    }
}
