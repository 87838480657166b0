//! The cluster itself: version, capacity, processes, containers, keys, alerts.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};

use super::answer::{Answer, data, list};
use super::ask::{Caller, Parameters};
use super::{Shared, page};
use crate::endpoints::Endpoints;
use crate::weka::core::Core;
use crate::weka::release::Feature;
use crate::weka::state::access::Right;
use crate::weka::state::{Container, Process};

/// `GET cluster`.
pub async fn cluster(State(core): State<Arc<Core>>, caller: Caller) -> Answer {
    caller.may(Right::Know)?;
    let odd = core.knobs().odd_release;
    Ok(data(&core.read(|state, _| {
        let cluster = state.cluster();
        json!({
            "name": cluster.name,
            "guid": cluster.guid,
            "release": odd.unwrap_or_else(|| cluster.release.to_string()),
            "release_hash": cluster.guid.replace('-', ""),
            "init_stage": "INITIALIZED",
            "capacity": {
                "total_bytes": cluster.total_bytes,
                "hot_spare_bytes": 0,
                "unprovisioned_bytes": state.unprovisioned(),
            },
        })
    })))
}

/// `GET processes`, from 4.2 on.
pub async fn processes(
    State(shared): State<Shared>,
    caller: Caller,
    parameters: Parameters,
) -> Answer {
    caller.needs(Feature::Processes)?;
    list_processes(&shared, &caller, &parameters)
}

/// `GET nodes`, the older name.
pub async fn nodes(State(shared): State<Shared>, caller: Caller, parameters: Parameters) -> Answer {
    list_processes(&shared, &caller, &parameters)
}

fn list_processes(shared: &Shared, caller: &Caller, parameters: &Parameters) -> Answer {
    caller.may(Right::Read)?;
    let mut items: Vec<(String, Value)> = shared
        .core
        .read(|state, _| state.processes.values().cloned().collect::<Vec<_>>())
        .into_iter()
        .chain(management(&shared.endpoints))
        .map(|process| (process.uid.clone(), json!(process)))
        .collect();
    items.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(list(&page::cut(&shared.core, parameters, items)?))
}

/// A backend for each endpoint.
fn management(endpoints: &Endpoints) -> impl Iterator<Item = Process> {
    endpoints
        .status()
        .into_iter()
        .enumerate()
        .map(|(number, endpoint)| Process {
            uid: format!("00000000-0000-0000-0000-{number:012}"),
            hostname: format!("backend-{number}"),
            mode: "backend".to_owned(),
            roles: vec!["MANAGEMENT".to_owned()],
            ips: vec![endpoint.address.ip().to_string()],
            mgmt_port: endpoint.address.port(),
            status: status(endpoint.running),
        })
}

/// `GET containers`.
pub async fn containers(
    State(shared): State<Shared>,
    caller: Caller,
    parameters: Parameters,
) -> Answer {
    caller.may(Right::Read)?;
    let (mut known, now) = shared
        .core
        .read(|state, now| (state.containers.values().cloned().collect::<Vec<_>>(), now));
    known.extend(shared.core.frontends.containers(now));
    known.extend(management(&shared.endpoints).map(|backend| Container {
        container_name: "drives0".to_owned(),
        hostname: backend.hostname,
        container_ip: backend.ips.concat(),
        mode: backend.mode,
        state: "ACTIVE".to_owned(),
        status: backend.status,
        frontend_dedicated_cores: 0,
    }));
    let mut items: Vec<(String, Value)> = known
        .into_iter()
        .map(|container| (container.key(), json!(container)))
        .collect();
    items.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(list(&page::cut(&shared.core, &parameters, items)?))
}

/// `GET kms`.
pub async fn kms(State(core): State<Arc<Core>>, caller: Caller) -> Answer {
    caller.may(Right::Read)?;
    Ok(data(&core.read(|state, _| {
        state
            .kms
            .values()
            .next()
            .map_or_else(|| json!({}), |kms| json!(kms))
    })))
}

/// `GET alerts`: directories that hold more than their soft limit.
pub async fn alerts(
    State(core): State<Arc<Core>>,
    caller: Caller,
    parameters: Parameters,
) -> Answer {
    caller.may(Right::Read)?;
    let (quotas, now) = core.read(|state, now| {
        let quotas: Vec<_> = state
            .quotas
            .iter()
            .filter_map(|(key, quota)| {
                let filesystem = state.filesystems.get(&quota.filesystem)?;
                (filesystem.org_id == caller.user.org_id)
                    .then(|| (key.clone(), quota.clone(), filesystem.name.clone()))
            })
            .collect();
        (quotas, now)
    });
    let mut items = Vec::new();
    for (key, quota, filesystem) in quotas {
        let ledger = core.backing.ledgers(&quota.filesystem).read(quota.inode)?;
        let Some(used) = ledger.map(|record| record.used) else {
            continue;
        };
        if quota.is_overrun(used, now) {
            let alert = json!({
                "type": "QuotaSoftLimitExceeded",
                "title": "Directory quota soft limit exceeded",
                "severity": "WARNING",
                "is_muted": false,
                "params": {
                    "fsName": filesystem,
                    "inode_id": quota.inode,
                    "used_bytes": used,
                    "soft_limit_bytes": quota.soft_limit_bytes,
                },
            });
            items.push((key, alert));
        }
    }
    Ok(list(&page::cut(&core, &parameters, items)?))
}

fn status(up: bool) -> String {
    if up { "UP" } else { "DOWN" }.to_owned()
}
