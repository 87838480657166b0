//! What clients set up for NFS.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{Answer, data, done, list};
use super::ask::{Body, Caller, Parameters};
use super::page;
use crate::weka::core::Core;
use crate::weka::state::access::Right;
use crate::weka::state::nfs::{self, NewClientGroup, NewPermission, NewRule};

/// `GET interfaceGroups`.
pub async fn interface_groups(
    State(core): State<Arc<Core>>,
    caller: Caller,
    parameters: Parameters,
) -> Answer {
    caller.may(Right::Read)?;
    let items = core.read(|state, _| items(&state.interface_groups));
    Ok(list(&page::cut(&core, &parameters, items)?))
}

/// `GET nfs/clientGroups`.
pub async fn client_groups(
    State(core): State<Arc<Core>>,
    caller: Caller,
    parameters: Parameters,
) -> Answer {
    caller.may(Right::Read)?;
    let mut items = core.read(|state, _| items(&state.client_groups));
    items.retain(|(_, group)| parameters.allow("name", group["name"].as_str().unwrap_or_default()));
    Ok(list(&page::cut(&core, &parameters, items)?))
}

/// `POST nfs/clientGroups`.
pub async fn create_client_group(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Body(request): Body<NewClientGroup>,
) -> Answer {
    caller.may(Right::WriteNfs)?;
    nfs::check_organization(&caller.user)?;
    let group = core
        .change(|state, moment| nfs::create_group(state, request, moment))
        .await?;
    Ok(data(&json!(group)))
}

/// `GET nfs/clientGroups/{uid}`.
pub async fn client_group(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path(uid): Path<String>,
) -> Answer {
    caller.may(Right::Read)?;
    let group = core.read(|state, _| nfs::group(state, &uid).cloned())?;
    Ok(data(&json!(group)))
}

/// `POST nfs/clientGroups/{uid}/rules`.
pub async fn create_rule(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path(uid): Path<String>,
    Body(request): Body<NewRule>,
) -> Answer {
    caller.may(Right::WriteNfs)?;
    nfs::check_organization(&caller.user)?;
    let rule = core
        .change(|state, moment| nfs::create_rule(state, &uid, request, moment))
        .await?;
    core.change_nfs();
    Ok(data(&json!(rule)))
}

/// `GET nfs/permissions`.
pub async fn permissions(
    State(core): State<Arc<Core>>,
    caller: Caller,
    parameters: Parameters,
) -> Answer {
    caller.may(Right::Read)?;
    let items = core.read(|state, _| items(&state.nfs_permissions));
    Ok(list(&page::cut(&core, &parameters, items)?))
}

/// `POST nfs/permissions`.
pub async fn create_permission(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Body(request): Body<NewPermission>,
) -> Answer {
    caller.may(Right::WriteNfs)?;
    nfs::check_organization(&caller.user)?;
    let permission = core
        .change(|state, moment| nfs::create_permission(state, &caller.user, request, moment))
        .await?;
    core.change_nfs();
    Ok(data(&json!(permission)))
}

/// `DELETE nfs/permissions/{uid}`.
pub async fn delete_permission(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path(uid): Path<String>,
) -> Answer {
    caller.may(Right::WriteNfs)?;
    nfs::check_organization(&caller.user)?;
    core.change(|state, _| Ok((nfs::delete_permission(state, &uid)?, ())))
        .await?;
    Ok(done())
}

fn items<T: Serialize>(objects: &BTreeMap<String, T>) -> Vec<(String, Value)> {
    objects
        .iter()
        .map(|(key, object)| (key.clone(), json!(object)))
        .collect()
}
