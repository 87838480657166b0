//! What answers the control API. Bodies are JSON; an answer without content is 204.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::control::{self, ErrorBody};
use crate::endpoints::EndpointStatus;
use crate::store::Journaled;
use crate::vpsa::array::Running;
use crate::vpsa::core::{Failure, Knobs};
use crate::vpsa::release::Release;
use crate::vpsa::state::{AccessKey, Change, Controller, Kind, Object, Refusal, Vpsa};

/// How the array is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The version it runs.
    pub release: Release,
    /// Its identity.
    pub id: String,
    /// The name of its iSCSI target.
    pub target: String,
    /// Its addresses for data.
    pub addresses: Vec<IpAddr>,
    /// The ports of its REST API.
    pub endpoints: Vec<EndpointStatus>,
    /// Its volumes: name and identity.
    pub volumes: Vec<(String, String)>,
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

/// Another access key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The key.
    pub key: String,
}

/// Whether the ports for data answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataPlane {
    /// They do.
    pub up: bool,
    /// Those of one address only; all if none.
    #[serde(default)]
    pub address: Option<IpAddr>,
}

/// Somebody who uses data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// `iscsi` or `nfs`.
    pub protocol: String,
    /// The server it is.
    pub server: String,
    /// Its address.
    pub address: IpAddr,
    /// The initiator's name, or the share.
    pub what: String,
}

type Shared = State<Arc<Running>>;
type Done = Result<StatusCode, ControlFailure>;

/// The paths of the control API.
pub fn router(running: Arc<Running>) -> Router {
    let own = Router::new()
        .route("/status", get(status))
        .route("/objects", get(objects).post(put_object))
        .route("/release", put(upgrade))
        .route("/access_key", put(access_key))
        .route("/failover", post(fail_over))
        .route("/data", put(data))
        .route("/sessions", get(sessions))
        .route("/counters", get(counters))
        .with_state(Arc::clone(&running));
    own.merge(control::server::router(running))
}

async fn status(State(running): Shared) -> Json<Status> {
    Json(running.core.read(|state, _| {
        Status {
            release: state.vpsa().release.clone(),
            id: state.vpsa().id.clone(),
            target: state.target(),
            addresses: running.core.addresses.clone(),
            endpoints: running.endpoints.status(),
            volumes: state
                .volumes
                .values()
                .map(|volume| (volume.display_name.clone(), volume.id.clone()))
                .collect(),
            knobs: running.core.controls.knobs(),
        }
    }))
}

async fn objects(State(running): Shared) -> Json<Vec<Object>> {
    let changes = running.core.read(|state, _| state.changes());
    let objects = changes.into_iter().filter_map(|change| match change {
        Change::Put(object) => Some(object),
        Change::Remove { .. } => None,
    });
    Json(objects.collect())
}

async fn put_object(State(running): Shared, Json(object): Json<Object>) -> Done {
    running.core.put(vec![Change::Put(object)]).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn upgrade(State(running): Shared, Json(upgrade): Json<Upgrade>) -> Done {
    let release = upgrade.release.parse::<Release>();
    let release =
        release.map_err(|error| Failure::from(Refusal::invalid("release", error.to_string())))?;
    running
        .core
        .change(|state, _| {
            let vpsa = Vpsa {
                release,
                ..state.vpsa().clone()
            };
            Ok((vec![Change::Put(Object::Vpsa(vpsa))], ()))
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn access_key(State(running): Shared, Json(key): Json<Key>) -> Done {
    running
        .core
        .change(|state, _| {
            let old = state.access_keys.keys().map(|key| Change::Remove {
                kind: Kind::AccessKey,
                key: key.clone(),
            });
            let new = AccessKey {
                text: key.key,
                user: "admin".to_owned(),
            };
            let mut changes: Vec<Change> = old.collect();
            changes.push(Change::Put(Object::AccessKey(new)));
            Ok((changes, ()))
        })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The active controller stands by, and one that stood by is active. Sessions end: their controller went.
async fn fail_over(State(running): Shared) -> Done {
    running
        .core
        .change(|state, _| {
            let turned = state.controllers.values().map(|controller| {
                let next = match controller.state.as_str() {
                    "active" => "standby",
                    "standby" => "active",
                    other => other,
                };
                Change::Put(Object::Controller(Controller {
                    state: next.to_owned(),
                    ..controller.clone()
                }))
            });
            Ok((turned.collect(), ()))
        })
        .await?;
    running.data.drop_sessions();
    Ok(StatusCode::NO_CONTENT)
}

async fn data(State(running): Shared, Json(plane): Json<DataPlane>) -> Done {
    let DataPlane { up, address } = plane;
    let done = running.data.set_up(address, up).await;
    done.map_err(Failure::from)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn sessions(State(running): Shared) -> Json<Vec<Session>> {
    Json(running.data.sessions())
}

async fn counters(State(running): Shared) -> Json<BTreeMap<String, u64>> {
    Json(running.core.counters())
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
            Failure::Refused(_) => StatusCode::BAD_REQUEST,
            Failure::Storage(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let message = self.0.to_string();
        (status, Json(ErrorBody { message })).into_response()
    }
}
