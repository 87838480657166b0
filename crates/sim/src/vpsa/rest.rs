//! The REST API under `/api/`, with `.json` at the end of every path.
//!
//! Handlers let [`state`](super::state) decide, carry out what was decided, wait as long as the client does, and show
//! what came of it.
//!
//! - [`answer`]: the envelope around every answer, and how refusals look.
//! - [`ask`]: who asks, and with which parameters.
//! - [`page`]: lists by pages.
//! - [`show`]: how objects look.
//! - `middleware`: faults and latency.

mod answer;
mod array;
mod ask;
mod middleware;
mod page;
mod servers;
mod show;
mod snapshots;
mod volumes;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use tower::ServiceExt;

use super::core::Core;
use super::state::Refusal;

/// Every path of the API.
pub fn router(core: Arc<Core>) -> Router {
    let api = routes()
        .fallback(answer::no_such_path)
        .method_not_allowed_fallback(async || StatusCode::METHOD_NOT_ALLOWED)
        .layer(from_fn_with_state(Arc::clone(&core), middleware::trouble))
        .with_state(core);
    // Paths end in `.json`, which no route can say.
    Router::new().fallback(move |request: Request| {
        let api = api.clone();
        async move {
            match below_api(request) {
                Some(request) => api
                    .oneshot(request)
                    .await
                    .unwrap_or_else(|never| match never {}),
                None => StatusCode::NOT_FOUND.into_response(),
            }
        }
    })
}

fn routes() -> Router<Arc<Core>> {
    Router::new()
        .route("/vcontrollers", get(array::controllers))
        .route("/config", get(array::config))
        .route("/drives", get(array::drives))
        .route("/raid_groups", get(array::raid_groups))
        .route("/pools", get(array::pools))
        .route("/pools/{id}", get(array::pool))
        .route("/pools/{id}/volumes", get(volumes::of_pool))
        .route("/pools/{id}/volumes_in_recycle_bin", get(volumes::recycled))
        .route("/settings/set_recycle_bin", post(array::set_recycle_bin))
        .route("/settings/encryption", post(array::set_encryption))
        .route("/volumes", get(volumes::list).post(volumes::create))
        .route("/volumes/free", get(volumes::free))
        .route("/volumes/{id}", get(volumes::get).delete(volumes::delete))
        .route("/volumes/{id}/expand", post(volumes::expand))
        .route("/volumes/{id}/rename", post(volumes::rename))
        .route("/volumes/{id}/update_comment", post(volumes::comment))
        .route("/volumes/{id}/servers", get(volumes::servers))
        .route("/volumes/{id}/detach", post(volumes::detach))
        .route(
            "/volumes/{id}/delete_volume_from_recycle_bin",
            delete(volumes::purge),
        )
        .route("/servers", get(servers::list).post(servers::create))
        .route("/servers/{id}", get(servers::get).delete(servers::delete))
        .route("/servers/{id}/config", post(servers::configure))
        .route("/servers/{id}/rename", post(servers::rename))
        .route(
            "/servers/{id}/volumes",
            get(servers::volumes).post(servers::attach),
        )
        .route("/snapshots", get(snapshots::list))
        .route(
            "/snapshots/{id}",
            get(snapshots::get).delete(snapshots::delete),
        )
        .route("/snapshots/{id}/rename", post(snapshots::rename))
        .route(
            "/consistency_groups/{cg}/snapshots",
            get(snapshots::of_group).post(snapshots::create),
        )
        .route("/consistency_groups/{cg}/clone", post(snapshots::clone))
}

/// The request as the routes know it: without `/api` and `.json`. Other requests are not for the API.
fn below_api(mut request: Request) -> Option<Request> {
    let uri = request.uri();
    let path = uri.path().strip_prefix("/api")?.strip_suffix(".json")?;
    let rest = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let uri: Uri = rest.parse().ok()?;
    *request.uri_mut() = uri;
    Some(request)
}

/// What is said of a path that is not there.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        answer::refused(&self, true)
    }
}
