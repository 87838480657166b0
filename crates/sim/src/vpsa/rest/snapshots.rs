//! Snapshots and clones.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::json;

use super::answer::{Answer, done};
use super::array::{listed, view};
use super::ask::Asked;
use crate::vpsa::core::Core;
use crate::vpsa::state::{snapshots, volumes};

type Shared = State<Arc<Core>>;

/// `GET snapshots`.
pub async fn list(State(core): Shared, asked: Asked) -> Answer {
    listed(&core, &asked, "snapshots", |view| {
        let all = view.state.snapshots.values();
        all.map(|snapshot| view.snapshot(snapshot, true)).collect()
    })
}

/// `GET snapshots/{id}`.
pub async fn get(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let shown = view(&core, |view| {
        snapshots::get(view.state, &id).map(|snapshot| view.snapshot(snapshot, true))
    });
    let shown = shown.map_err(|refusal| asked.wrong(refusal))?;
    Ok(done(&core, json!({ "snapshot": shown })))
}

/// `GET consistency_groups/{cg}/snapshots`.
pub async fn of_group(State(core): Shared, Path(cg): Path<String>, asked: Asked) -> Answer {
    let known = core.read(|state, now| volumes::of_group(state, &cg, now).map(drop));
    known.map_err(|refusal| asked.wrong(refusal))?;
    listed(&core, &asked, "snapshots", |view| {
        let all = snapshots::of_group(view.state, &cg);
        all.map(|snapshot| view.snapshot(snapshot, false)).collect()
    })
}

/// `POST consistency_groups/{cg}/snapshots`.
pub async fn create(State(core): Shared, Path(cg): Path<String>, asked: Asked) -> Answer {
    let wrong = |failure| asked.wrong(failure);
    let taken =
        core.change(|state, moment| snapshots::create(state, &cg, &asked.parameters, moment));
    let snapshot = taken.await.map_err(wrong)?;
    core.fill_snapshot(&snapshot).await.map_err(wrong)?;
    asked.wait(snapshot.ready_at).await?;
    Ok(done(&core, json!({ "snapshot_name": snapshot.id })))
}

/// `POST snapshots/{id}/rename`.
pub async fn rename(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let renamed = core.change(|state, _| snapshots::rename(state, &id, &asked.parameters));
    let snapshot = renamed.await.map_err(|failure| asked.wrong(failure))?;
    Ok(done(&core, json!({ "snapshot_name": snapshot.id })))
}

/// `DELETE snapshots/{id}`.
pub async fn delete(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let wrong = |failure| asked.wrong(failure);
    let deleted =
        core.change(|state, moment| snapshots::delete(state, &id, &asked.parameters, moment));
    let snapshot = deleted.await.map_err(wrong)?;
    asked.wait(snapshot.removed_at.unwrap_or_default()).await?;
    core.sweep().await.map_err(wrong)?;
    Ok(done(&core, json!({ "snapshot_name": id })))
}

/// `POST consistency_groups/{cg}/clone`. Answers with the group of the new volume, which is made meanwhile.
pub async fn clone(State(core): Shared, Path(cg): Path<String>, asked: Asked) -> Answer {
    let cloned = core.change(|state, moment| volumes::clone(state, &cg, &asked.parameters, moment));
    let volume = cloned.await.map_err(|failure| asked.wrong(failure))?;
    let cg = volume.cg.clone();
    let copying = Arc::clone(&core);
    tokio::spawn(async move {
        if let Err(error) = copying.fill_volume(&volume).await {
            tracing::warn!(%error, volume = volume.id, "A clone was not made; a restart tries again.");
        }
    });
    Ok(done(&core, json!({ "cg_name": cg })))
}
