//! Servers, and volumes that are attached to them.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::json;

use super::answer::{Answer, done};
use super::array::{listed, view};
use super::ask::Asked;
use crate::vpsa::core::Core;
use crate::vpsa::state::servers;

type Shared = State<Arc<Core>>;

/// `GET servers`.
pub async fn list(State(core): Shared, asked: Asked) -> Answer {
    listed(&core, &asked, "servers", |view| {
        let all = view.state.servers.values();
        all.map(|server| view.server(server)).collect()
    })
}

/// `GET servers/{id}`.
pub async fn get(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let shown = view(&core, |view| {
        servers::get(view.state, &id).map(|server| view.server(server))
    });
    let shown = shown.map_err(|refusal| asked.wrong(refusal))?;
    Ok(done(&core, json!({ "server": shown })))
}

/// `POST servers`.
pub async fn create(State(core): Shared, asked: Asked) -> Answer {
    let created = core.change(|state, moment| servers::create(state, &asked.parameters, moment));
    let server = created.await.map_err(|failure| asked.wrong(failure))?;
    Ok(done(&core, json!({ "server_name": server.id })))
}

/// `POST servers/{id}/config`.
pub async fn configure(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let changed = core.change(|state, _| servers::configure(state, &id, &asked.parameters));
    let server = changed.await.map_err(|failure| asked.wrong(failure))?;
    Ok(done(&core, json!({ "server_name": server.id })))
}

/// `POST servers/{id}/rename`.
pub async fn rename(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let renamed = core.change(|state, _| servers::rename(state, &id, &asked.parameters));
    let server = renamed.await.map_err(|failure| asked.wrong(failure))?;
    Ok(done(&core, json!({ "server_name": server.id })))
}

/// `DELETE servers/{id}`.
pub async fn delete(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let deleted = core.change(|state, _| servers::delete(state, &id, &asked.parameters));
    deleted.await.map_err(|failure| asked.wrong(failure))?;
    Ok(done(&core, json!({ "server_name": id })))
}

/// `GET servers/{id}/volumes`.
pub async fn volumes(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let known = core.read(|state, _| servers::get(state, &id).map(drop));
    known.map_err(|refusal| asked.wrong(refusal))?;
    listed(&core, &asked, "volumes", |view| {
        let attachments = view.state.attachments_to(&id);
        let volumes = attachments.filter_map(|a| view.state.volumes.get(&a.volume));
        volumes.map(|volume| view.volume(volume)).collect()
    })
}

/// `POST servers/{id}/volumes`, where several servers may be named with commas between.
pub async fn attach(State(core): Shared, Path(ids): Path<String>, asked: Asked) -> Answer {
    let ids: Vec<String> = ids.split(',').map(ToOwned::to_owned).collect();
    let attached =
        core.change(|state, moment| servers::attach(state, &ids, &asked.parameters, moment));
    let attached = attached.await.map_err(|failure| asked.wrong(failure))?;
    let last = attached.iter().map(|attachment| attachment.ready_at).max();
    asked.wait(last.unwrap_or_default()).await?;
    Ok(done(&core, json!({})))
}
