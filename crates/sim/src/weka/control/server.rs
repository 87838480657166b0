//! What answers the control API. Bodies are JSON; an answer without content is 204.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::faults::{ActiveFault, Fault};
use super::frontends::{Report, Stage};
use crate::weka::array::{Running, StartError};
use crate::weka::core::{Failure, Knobs, SeenRequest, now};
use crate::weka::endpoints::{EndpointError, EndpointStatus};
use crate::weka::release::Release;
use crate::weka::state::mounts::{self, Grant, MountRequest};
use crate::weka::state::{Change, Object, Refusal, tokens};

/// How the cluster is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The version it runs.
    pub release: Release,
    /// Its identity.
    pub guid: String,
    /// Its endpoints.
    pub endpoints: Vec<EndpointStatus>,
    /// Its filesystems: name and identity.
    pub filesystems: Vec<(String, String)>,
    /// How long things take.
    pub knobs: Knobs,
}

/// Another version.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// Which; only those that are known.
    pub release: String,
}

/// Which tokens are void.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// Refresh tokens, too.
    #[serde(default)]
    pub refresh: bool,
}

/// A restart.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// How long nothing answers, in milliseconds.
    #[serde(default)]
    pub down: u64,
}

/// Whether operations on files hang.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hang {
    /// They do.
    pub hung: bool,
}

/// What the control API says if it cannot do something.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Why.
    pub message: String,
}

type Shared = State<Arc<Running>>;
type Done = Result<StatusCode, ControlFailure>;

/// The paths of the control API.
pub fn router(running: Arc<Running>) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/endpoints/{number}/start", post(start_endpoint))
        .route("/endpoints/{number}/stop", post(stop_endpoint))
        .route(
            "/faults",
            get(list_faults).post(add_fault).delete(clear_faults),
        )
        .route("/faults/{id}", delete(remove_fault))
        .route("/knobs", get(get_knobs).put(set_knobs))
        .route("/release", put(upgrade))
        .route("/tokens/revoke", post(revoke))
        .route("/restart", post(restart))
        .route("/objects", post(put_object))
        .route("/requests", delete(take_requests))
        .route("/filesystems/{uid}/hang", put(hang))
        .route("/frontends", post(report))
        .route("/frontends/{container}", put(stage))
        .route("/mounts", post(mount))
        .with_state(running)
}

async fn status(State(running): Shared) -> Json<Status> {
    Json(running.core.read(|state, _| {
        Status {
            release: state.cluster().release.clone(),
            guid: state.cluster().guid.clone(),
            endpoints: running.endpoints.status(),
            filesystems: state
                .filesystems
                .values()
                .map(|filesystem| (filesystem.name.clone(), filesystem.uid.clone()))
                .collect(),
            knobs: running.core.knobs(),
        }
    }))
}

async fn start_endpoint(State(running): Shared, Path(number): Path<usize>) -> Done {
    running.start_endpoint(number).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn stop_endpoint(State(running): Shared, Path(number): Path<usize>) -> Done {
    running.endpoints.stop(number)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn list_faults(State(running): Shared) -> Json<Vec<ActiveFault>> {
    Json(running.core.faults.list())
}

async fn add_fault(State(running): Shared, Json(fault): Json<Fault>) -> Json<u64> {
    Json(running.core.faults.add(fault))
}

async fn clear_faults(State(running): Shared) -> StatusCode {
    running.core.faults.clear();
    StatusCode::NO_CONTENT
}

async fn remove_fault(State(running): Shared, Path(id): Path<u64>) -> StatusCode {
    running.core.faults.remove(id);
    StatusCode::NO_CONTENT
}

async fn get_knobs(State(running): Shared) -> Json<Knobs> {
    Json(running.core.knobs())
}

async fn set_knobs(State(running): Shared, Json(knobs): Json<Knobs>) -> StatusCode {
    running.core.set_knobs(knobs);
    StatusCode::NO_CONTENT
}

async fn upgrade(State(running): Shared, Json(upgrade): Json<Upgrade>) -> Done {
    let release = upgrade.release.parse::<Release>();
    let release = release.map_err(|error| Failure::from(Refusal::Invalid(error.to_string())))?;
    running
        .core
        .check_transport(running.endpoints.is_secure(), &release)
        .map_err(Failure::from)?;
    running
        .core
        .change(|state, _| {
            let mut cluster = state.cluster().clone();
            cluster.release = release;
            Ok((vec![Change::Put(Object::Cluster(cluster))], ()))
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn revoke(State(running): Shared, Json(revocation): Json<Revocation>) -> Done {
    running
        .core
        .change(|state, _| Ok((tokens::revoke(state, revocation.refresh), ())))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn restart(State(running): Shared, Json(restart): Json<Restart>) -> Done {
    running.restart(Duration::from_millis(restart.down)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn put_object(State(running): Shared, Json(object): Json<Object>) -> Done {
    running.core.put(vec![Change::Put(object)]).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn take_requests(State(running): Shared) -> Json<Vec<SeenRequest>> {
    Json(running.core.take_requests())
}

async fn hang(State(running): Shared, Path(uid): Path<String>, Json(hang): Json<Hang>) -> Done {
    if !running
        .core
        .read(|state, _| state.filesystems.contains_key(&uid))
    {
        return Err(Failure::from(Refusal::FilesystemMissing(uid)).into());
    }
    let ledgers = running.core.backing.ledgers(&uid);
    ledgers.set_hung(hang.hung).map_err(Failure::from)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn report(State(running): Shared, Json(report): Json<Report>) -> Json<Stage> {
    Json(running.core.frontends.report(report, now()))
}

async fn stage(
    State(running): Shared,
    Path(container): Path<String>,
    Json(stage): Json<Stage>,
) -> StatusCode {
    running.core.frontends.set_stage(&container, stage);
    StatusCode::NO_CONTENT
}

async fn mount(
    State(running): Shared,
    Json(request): Json<MountRequest>,
) -> Result<Json<Grant>, ControlFailure> {
    let connected = running.core.frontends.is_connected(&request.container);
    let grant = running
        .core
        .read(|state, now| mounts::grant(state, &request, connected, now));
    Ok(Json(grant.map_err(Failure::from)?))
}

/// Why a request failed.
enum ControlFailure {
    Failure(Failure),
    Start(StartError),
}

impl From<Failure> for ControlFailure {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<StartError> for ControlFailure {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl From<EndpointError> for ControlFailure {
    fn from(error: EndpointError) -> Self {
        Self::Start(error.into())
    }
}

impl IntoResponse for ControlFailure {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Self::Failure(Failure::Refused(refusal)) => (
                StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::BAD_REQUEST),
                refusal.to_string(),
            ),
            Self::Failure(failure) => (StatusCode::INTERNAL_SERVER_ERROR, failure.to_string()),
            Self::Start(StartError::Endpoint(error @ EndpointError::Unknown(_))) => {
                (StatusCode::NOT_FOUND, error.to_string())
            }
            Self::Start(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        (status, Json(ErrorBody { message })).into_response()
    }
}
