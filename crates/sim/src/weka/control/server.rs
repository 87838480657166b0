//! What answers the control API. Bodies are JSON; an answer without content is 204.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::frontends::{Report, Stage};
use crate::control::{self, ErrorBody};
use crate::endpoints::EndpointStatus;
use crate::moment::now;
use crate::weka::array::Running;
use crate::weka::core::{Failure, Knobs};
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

/// Whether operations on files hang.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hang {
    /// They do.
    pub hung: bool,
}

type Shared = State<Arc<Running>>;
type Done = Result<StatusCode, ControlFailure>;

/// The paths of the control API.
pub fn router(running: Arc<Running>) -> Router {
    let own = Router::new()
        .route("/status", get(status))
        .route("/release", put(upgrade))
        .route("/tokens/revoke", post(revoke))
        .route("/objects", post(put_object))
        .route("/finish", post(finish))
        .route("/filesystems/{uid}/hang", put(hang))
        .route("/frontends", post(report))
        .route("/frontends/{container}", put(stage))
        .route("/mounts", post(mount))
        .with_state(Arc::clone(&running));
    own.merge(control::server::router(running))
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

async fn put_object(State(running): Shared, Json(object): Json<Object>) -> Done {
    running.core.put(vec![Change::Put(object)]).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn finish(State(running): Shared) -> Done {
    running.core.finish().await?;
    Ok(StatusCode::NO_CONTENT)
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

/// Why something cannot be done.
struct ControlFailure(Failure);

impl From<Failure> for ControlFailure {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for ControlFailure {
    fn into_response(self) -> Response {
        let status = match &self.0 {
            Failure::Refused(refusal) => StatusCode::from_u16(refusal.status()),
            Failure::Storage(_) => Ok(StatusCode::INTERNAL_SERVER_ERROR),
        };
        let message = self.0.to_string();
        let status = status.unwrap_or(StatusCode::BAD_REQUEST);
        (status, Json(ErrorBody { message })).into_response()
    }
}
