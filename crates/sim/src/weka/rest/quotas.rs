//! Quotas of directories, from 3.13 on.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::json;

use super::answer::{self, Answer, data, done};
use super::ask::{Body, Caller, Parameters};
use super::filesystems::find;
use super::{page, show};
use crate::weka::core::Core;
use crate::weka::release::Feature;
use crate::weka::state::access::Right;
use crate::weka::state::quotas::Limits;
use crate::weka::state::{Filesystem, Refusal};

/// `GET fileSystems/{uid}/quota`. Quotas of directories in snapshots are not listed.
pub async fn list(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path(uid): Path<String>,
    parameters: Parameters,
) -> Answer {
    let filesystem = allowed(&core, &caller, Right::Read, &uid)?;
    let (quotas, now) = core.read(|state, now| {
        let quotas: Vec<_> = state
            .quotas
            .values()
            .filter(|q| q.filesystem == uid && q.snapshot.is_none())
            .cloned()
            .collect();
        (quotas, now)
    });
    let mut items = Vec::with_capacity(quotas.len());
    for quota in quotas {
        // A quota goes with its directory.
        let (Some(ledger), Some(found)) = (
            core.backing.ledgers(&uid).read(quota.inode)?,
            core.find(&filesystem, quota.inode).await?,
        ) else {
            continue;
        };
        let shown = show::listed_quota(&quota, ledger.used, &filesystem.name, &found.path, now);
        items.push((quota.key(), shown));
    }
    Ok(answer::list(&page::cut(&core, &parameters, items)?))
}

/// `GET fileSystems/{uid}/quota/{inode}`.
pub async fn get(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path((uid, inode)): Path<(String, String)>,
) -> Answer {
    allowed(&core, &caller, Right::Read, &uid)?;
    let (quota, used) = core.quota(&uid, number(&inode)?).await?;
    let now = core.read(|_, now| now);
    Ok(data(&show::quota(&quota, used, now)))
}

/// `PUT fileSystems/{uid}/quota/{inode}`.
pub async fn set(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path((uid, inode)): Path<(String, String)>,
    Body(limits): Body<Limits>,
) -> Answer {
    let filesystem = allowed(&core, &caller, Right::WriteQuotas, &uid)?;
    let inode = number(&inode)?;
    core.set_quota(&filesystem, inode, &limits).await?;
    let (quota, used) = core.quota(&uid, inode).await?;
    let now = core.read(|_, now| now);
    let mut shown = show::quota(&quota, used, now);
    if core.knobs().wrong_quota_inode {
        shown["inode_id"] = json!(inode + 1);
    }
    Ok(data(&shown))
}

/// `DELETE fileSystems/{uid}/quota/{inode}`.
pub async fn delete(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path((uid, inode)): Path<(String, String)>,
) -> Answer {
    allowed(&core, &caller, Right::WriteQuotas, &uid)?;
    core.delete_quota(&uid, number(&inode)?).await?;
    Ok(done())
}

fn allowed(core: &Core, caller: &Caller, right: Right, uid: &str) -> Result<Filesystem, Refusal> {
    caller.needs(Feature::DirectoryQuota)?;
    caller.may(right)?;
    find(core, &caller.user, uid)
}

fn number(inode: &str) -> Result<u64, Refusal> {
    inode
        .parse()
        .map_err(|_| Refusal::Invalid(format!("inode: `{inode}` is not a number")))
}
