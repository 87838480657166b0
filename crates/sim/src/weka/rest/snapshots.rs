//! Snapshots.

use std::io;
use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::Value;

use super::answer::{self, Answer, data, done};
use super::ask::{Body, Caller, Parameters};
use super::{page, show};
use crate::weka::core::{Core, Failure};
use crate::weka::state::access::Right;
use crate::weka::state::snapshots::{self, NewSnapshot};
use crate::weka::state::{Change, Kind, Snapshot, State as ClusterState, User};

/// `GET snapshots`.
pub async fn list(State(core): State<Arc<Core>>, caller: Caller, parameters: Parameters) -> Answer {
    caller.may(Right::Read)?;
    let items = core.read(|state, _| {
        state
            .snapshots
            .values()
            .filter_map(|s| Some((s.uid.clone(), shown(state, &caller.user, s)?)))
            .filter(|(_, shown)| {
                [
                    ("name", "name"),
                    ("filesystem", "filesystem"),
                    ("access_point", "accessPoint"),
                ]
                .iter()
                .all(|(filter, field)| {
                    parameters.allow(filter, shown[field].as_str().unwrap_or_default())
                })
            })
            .collect()
    });
    Ok(answer::list(&page::cut(&core, &parameters, items)?))
}

/// `GET snapshots/{uid}`.
pub async fn get(State(core): State<Arc<Core>>, caller: Caller, Path(uid): Path<String>) -> Answer {
    caller.may(Right::Read)?;
    let found = core.read(|state, _| {
        let snapshot = snapshots::get(state, &caller.user, &uid)?;
        Ok::<_, Failure>(shown(state, &caller.user, snapshot))
    })?;
    Ok(data(&found.unwrap_or_default()))
}

/// `POST snapshots`.
pub async fn create(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Body(request): Body<NewSnapshot>,
) -> Answer {
    caller.may(Right::WriteSnapshots)?;
    let snapshot = core
        .change(|state, moment| snapshots::create(state, &caller.user, request, moment))
        .await?;
    if let Err(error) = fill(&core, &snapshot).await {
        // Without its files it is none.
        let gone = Change::Remove {
            kind: Kind::Snapshot,
            key: snapshot.uid,
        };
        core.put(vec![gone]).await?;
        return Err(error.into());
    }
    let shown = core.read(|state, _| shown(state, &caller.user, &snapshot));
    Ok(data(&shown.unwrap_or_default()))
}

/// `DELETE snapshots/{uid}`.
pub async fn delete(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path(uid): Path<String>,
) -> Answer {
    caller.may(Right::WriteSnapshots)?;
    core.change(|state, moment| Ok((snapshots::delete(state, &caller.user, &uid, moment)?, ())))
        .await?;
    Ok(done())
}

/// Gives a snapshot its files, and the quotas of the directories in it.
async fn fill(core: &Core, snapshot: &Snapshot) -> Result<(), Failure> {
    copy(core, snapshot).await?;
    core.inherit_quotas(snapshot).await
}

async fn copy(core: &Core, snapshot: &Snapshot) -> io::Result<()> {
    let source = core.read(|state, _| {
        let source = state.snapshots.get(snapshot.source.as_ref()?)?;
        Some(source.access_point.clone())
    });
    let backing = core.backing.clone();
    let (filesystem, access_point) = (snapshot.filesystem.clone(), snapshot.access_point.clone());
    let writable = snapshot.writable;
    tokio::task::spawn_blocking(move || {
        backing.copy_snapshot(&filesystem, source.as_deref(), &access_point, writable)
    })
    .await
    .map_err(io::Error::other)?
}

/// None if it is another organization's.
fn shown(state: &ClusterState, user: &User, snapshot: &Snapshot) -> Option<Value> {
    state
        .filesystems
        .get(&snapshot.filesystem)
        .filter(|filesystem| filesystem.org_id == user.org_id)
        .map(|filesystem| show::snapshot(snapshot, filesystem))
}
