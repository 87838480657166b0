//! The REST API under `/api/v2`.
//!
//! Handlers find out who asks and whether that user may, let [`state`](super::state) decide, and show what came of it.
//!
//! - [`answer`]: the envelope around every answer, and how refusals look.
//! - [`ask`]: who asks, with which body and which query.
//! - [`page`]: lists by pages.
//! - [`show`]: how objects look.
//! - `middleware`: faults and latency.

mod answer;
mod ask;
mod cluster;
mod filesystems;
mod middleware;
mod nfs;
mod page;
mod quotas;
mod show;
mod snapshots;
mod users;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};

use super::core::Core;
use super::state::Refusal;
use crate::endpoints::Endpoints;

/// What handlers work on.
#[derive(Clone)]
struct Shared {
    core: Arc<Core>,
    endpoints: Arc<Endpoints>,
}

impl FromRef<Shared> for Arc<Core> {
    fn from_ref(shared: &Shared) -> Self {
        Arc::clone(&shared.core)
    }
}

/// Every path of the API.
pub fn router(core: Arc<Core>, endpoints: Arc<Endpoints>) -> Router {
    let shared = Shared { core, endpoints };
    let api = Router::new()
        .route("/login", post(users::log_in))
        .route("/login/refresh", post(users::refresh))
        .route("/users/whoami", get(users::whoami))
        .route("/security/defaultTokensExpiry", get(users::tokens_expiry))
        .route("/cluster", get(cluster::cluster))
        .route("/processes", get(cluster::processes))
        .route("/nodes", get(cluster::nodes))
        .route("/containers", get(cluster::containers))
        .route("/kms", get(cluster::kms))
        .route("/alerts", get(cluster::alerts))
        .merge(filesystem_routes())
        .merge(nfs_routes())
        .fallback(async || answer::refusal(&Refusal::NoSuchPath))
        .method_not_allowed_fallback(async || answer::fault(405))
        .layer(from_fn_with_state(
            Arc::clone(&shared.core),
            middleware::trouble,
        ))
        .with_state(shared);
    Router::new().nest("/api/v2", api)
}

fn filesystem_routes() -> Router<Shared> {
    Router::new()
        .route(
            "/fileSystems",
            get(filesystems::list).post(filesystems::create),
        )
        .route(
            "/fileSystems/{uid}",
            get(filesystems::get)
                .put(filesystems::update)
                .delete(filesystems::delete),
        )
        .route(
            "/fileSystems/{uid}/mountToken",
            get(filesystems::mount_token),
        )
        .route(
            "/fileSystems/{uid}/resolvePath",
            get(filesystems::resolve_path),
        )
        .route("/fileSystems/{uid}/quota", get(quotas::list))
        .route(
            "/fileSystems/{uid}/quota/{inode}",
            get(quotas::get).put(quotas::set).delete(quotas::delete),
        )
        .route("/snapshots", get(snapshots::list).post(snapshots::create))
        .route(
            "/snapshots/{uid}",
            get(snapshots::get).delete(snapshots::delete),
        )
}

fn nfs_routes() -> Router<Shared> {
    Router::new()
        .route("/interfaceGroups", get(nfs::interface_groups))
        .route(
            "/nfs/clientGroups",
            get(nfs::client_groups).post(nfs::create_client_group),
        )
        .route("/nfs/clientGroups/{uid}", get(nfs::client_group))
        .route("/nfs/clientGroups/{uid}/rules", post(nfs::create_rule))
        .route(
            "/nfs/permissions",
            get(nfs::permissions).post(nfs::create_permission),
        )
        .route("/nfs/permissions/{uid}", delete(nfs::delete_permission))
}
