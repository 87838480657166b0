//! Volumes.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{Answer, done};
use super::array::{listed, view};
use super::ask::Asked;
use super::show::View;
use crate::vpsa::core::Core;
use crate::vpsa::state::{DataType, Volume, servers as server_state, volumes};

type Shared = State<Arc<Core>>;

fn shown(view: View<'_>, wanted: impl Fn(&Volume) -> bool) -> Vec<Value> {
    let all = view.state.volumes.values();
    all.filter(|volume| wanted(volume))
        .map(|volume| view.volume(volume))
        .collect()
}

/// `GET volumes`.
pub async fn list(State(core): Shared, asked: Asked) -> Answer {
    let known = ["showonlyblock", "showonlyfile", "display_name"];
    let parameters = &asked.parameters;
    let only = |name| parameters.switch(name, false);
    let filters = parameters.only(&known).and_then(|()| {
        let filters = (only("showonlyblock")?, only("showonlyfile")?);
        Ok(filters)
    });
    let (block, file) = filters.map_err(|refusal| asked.wrong(refusal))?;
    // The array looks for the first word only.
    let name = parameters.get("display_name");
    let name = name.map(|name| name.split(' ').next().unwrap_or_default());
    listed(&core, &asked, "volumes", |view| {
        shown(view, |volume| {
            volume.is_seen(view.now)
                && name.is_none_or(|name| volume.display_name == name)
                && !(block && volume.data_type != DataType::Block)
                && !(file && volume.data_type != DataType::Nas)
        })
    })
}

/// `GET volumes/free`.
pub async fn free(State(core): Shared, asked: Asked) -> Answer {
    listed(&core, &asked, "volumes", |view| {
        shown(view, |volume| {
            let attached = view.state.attachments_of(&volume.id).next().is_some();
            volume.is_seen(view.now) && !attached
        })
    })
}

/// `GET pools/{id}/volumes`.
pub async fn of_pool(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    listed(&core, &asked, "volumes", |view| {
        shown(view, |volume| volume.pool == id && volume.is_seen(view.now))
    })
}

/// `GET pools/{id}/volumes_in_recycle_bin`.
pub async fn recycled(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    listed(&core, &asked, "volumes", |view| {
        shown(view, |volume| volume.pool == id && volume.is_recycled())
    })
}

/// `GET volumes/{id}`.
pub async fn get(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let shown = view(&core, |view| {
        volumes::get(view.state, &id, view.now).map(|volume| view.volume(volume))
    });
    let shown = shown.map_err(|refusal| asked.wrong(refusal))?;
    Ok(done(&core, json!({ "volume": shown })))
}

/// `POST volumes`.
pub async fn create(State(core): Shared, asked: Asked) -> Answer {
    let wrong = |failure| asked.wrong(failure);
    let created = core.change(|state, moment| volumes::create(state, &asked.parameters, moment));
    let volume = created.await.map_err(wrong)?;
    core.fill_volume(&volume).await.map_err(wrong)?;
    asked.wait(volume.ready_at).await?;
    Ok(done(&core, json!({ "vol_name": volume.id })))
}

/// `DELETE volumes/{id}`.
pub async fn delete(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let wrong = |failure| asked.wrong(failure);
    let may_force = core.controls.knobs().forced_deletions;
    let deleted = core.change(|state, moment| {
        if may_force && asked.parameters.switch("force", false)? {
            volumes::delete_by_force(state, &id, moment)
        } else {
            volumes::delete(state, &id, &asked.parameters, moment)
        }
    });
    let volume = deleted.await.map_err(wrong)?;
    if let Some(removed_at) = volume.removed_at {
        asked.wait(removed_at).await?;
        core.sweep().await.map_err(wrong)?;
    }
    Ok(done(&core, json!({ "vol_name": volume.id })))
}

/// `DELETE volumes/{id}/delete_volume_from_recycle_bin`.
pub async fn purge(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let wrong = |failure| asked.wrong(failure);
    // What the state has forgotten nobody would look for again.
    let known = core.read(|state, _| volumes::purge(state, &id).map(drop));
    known.map_err(|refusal| asked.wrong(refusal))?;
    core.backing
        .remove_volume(&id)
        .map_err(|error| asked.wrong(error))?;
    let purged = core.change(|state, _| volumes::purge(state, &id));
    purged.await.map_err(wrong)?;
    Ok(done(&core, json!({})))
}

/// `POST volumes/{id}/expand`.
pub async fn expand(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let wrong = |failure| asked.wrong(failure);
    let expanded =
        core.change(|state, moment| volumes::expand(state, &id, &asked.parameters, moment));
    let volume = expanded.await.map_err(wrong)?;
    let done_at = volume.growth.map_or(0, |(_, at)| at);
    asked.wait(done_at).await?;
    core.sweep().await.map_err(wrong)?;
    Ok(done(&core, json!({ "vol_name": volume.id })))
}

/// `POST volumes/{id}/rename`.
pub async fn rename(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let renamed =
        core.change(|state, moment| volumes::rename(state, &id, &asked.parameters, moment.now));
    let volume = renamed.await.map_err(|failure| asked.wrong(failure))?;
    Ok(done(&core, json!({ "vol_name": volume.id })))
}

/// `POST volumes/{id}/update_comment`.
pub async fn comment(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let said =
        core.change(|state, moment| volumes::comment(state, &id, &asked.parameters, moment.now));
    let volume = said.await.map_err(|failure| asked.wrong(failure))?;
    Ok(done(&core, json!({ "vol_name": volume.id })))
}

/// `GET volumes/{id}/servers`.
pub async fn servers(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let known = core.read(|state, now| volumes::get(state, &id, now).map(drop));
    known.map_err(|refusal| asked.wrong(refusal))?;
    let has_unfinished = core.controls.knobs().unfinished_attachments;
    listed(&core, &asked, "servers", |view| {
        let attachments = view.state.attachments_of(&id);
        let shown = attachments.filter(|it| has_unfinished || it.ready_at <= view.now);
        shown
            .filter_map(|attachment| {
                let server = view.state.servers.get(&attachment.server)?;
                Some(view.attached_server(server, attachment))
            })
            .collect()
    })
}

/// `POST volumes/{id}/detach`.
pub async fn detach(State(core): Shared, Path(id): Path<String>, asked: Asked) -> Answer {
    let detached = core
        .change(|state, moment| server_state::detach(state, &id, &asked.parameters, moment.now));
    detached.await.map_err(|failure| asked.wrong(failure))?;
    Ok(done(&core, json!({ "vol_name": id })))
}
