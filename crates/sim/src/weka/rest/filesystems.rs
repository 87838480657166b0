//! Filesystems.

use std::io;
use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{self, Answer, data, done};
use super::ask::{Body, Caller, Parameters};
use super::{page, show};
use crate::moment::fresh_secret;
use crate::weka::core::Core;
use crate::weka::release::Feature;
use crate::weka::state::access::{self, Right};
use crate::weka::state::filesystems::{self, FilesystemUpdate, NewFilesystem};
use crate::weka::state::{Filesystem, Refusal, User, tokens};

/// `GET fileSystems`.
pub async fn list(State(core): State<Arc<Core>>, caller: Caller, parameters: Parameters) -> Answer {
    caller.may(Right::Read)?;
    let (filesystems, now) = core.read(|state, now| {
        let filesystems: Vec<Filesystem> = state
            .filesystems
            .values()
            .filter(|f| f.org_id == caller.user.org_id)
            .cloned()
            .collect();
        (filesystems, now)
    });
    let items = filesystems
        .iter()
        .map(|f| (f.uid.clone(), show::filesystem(f, used(&core, f), now)))
        .filter(|(_, shown)| {
            ["name", "id", "group_name", "status"]
                .iter()
                .all(|field| parameters.allow(field, shown[field].as_str().unwrap_or_default()))
        })
        .collect();
    Ok(answer::list(&page::cut(&core, &parameters, items)?))
}

/// `GET fileSystems/{uid}`.
pub async fn get(State(core): State<Arc<Core>>, caller: Caller, Path(uid): Path<String>) -> Answer {
    caller.may(Right::Read)?;
    let filesystem = find(&core, &caller.user, &uid)?;
    Ok(data(&shown(&core, &filesystem)))
}

/// `POST fileSystems`.
pub async fn create(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Body(request): Body<NewFilesystem>,
) -> Answer {
    caller.may(Right::WriteFilesystems)?;
    let filesystem = core
        .change(|state, moment| filesystems::create(state, &caller.user, request, moment))
        .await?;
    core.backing
        .create(&filesystem.uid, filesystem.total_budget)?;
    Ok(data(&shown(&core, &filesystem)))
}

/// `PUT fileSystems/{uid}`.
pub async fn update(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path(uid): Path<String>,
    Body(request): Body<FilesystemUpdate>,
) -> Answer {
    caller.may(Right::WriteFilesystems)?;
    let used = used(&core, &find(&core, &caller.user, &uid)?);
    let filesystem = core
        .change(|state, moment| {
            filesystems::update(state, &caller.user, &uid, &request, used, moment.now)
        })
        .await?;
    core.backing
        .ledgers(&uid)
        .set_total(filesystem.total_budget)?;
    Ok(data(&shown(&core, &filesystem)))
}

/// `DELETE fileSystems/{uid}`.
pub async fn delete(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path(uid): Path<String>,
) -> Answer {
    caller.may(Right::WriteFilesystems)?;
    core.change(|state, moment| Ok((filesystems::delete(state, &caller.user, &uid, moment)?, ())))
        .await?;
    Ok(done())
}

/// `GET fileSystems/{uid}/mountToken`, from 3.14 on.
pub async fn mount_token(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path(uid): Path<String>,
) -> Answer {
    caller.needs(Feature::MountToken)?;
    caller.may(Right::Mount)?;
    let token = fresh_secret(32);
    let expiry = core.expiry();
    let name = core
        .change(|state, moment| {
            let user = &caller.user;
            let filesystem = access::filesystem(state, user, &uid)?;
            let changes = tokens::issue_mount(filesystem, user, &token, expiry, moment.now)?;
            Ok((changes, filesystem.name.clone()))
        })
        .await?;
    Ok(data(
        &json!({ "mount_token": token, "filesystem_name": name }),
    ))
}

/// `GET fileSystems/{uid}/resolvePath`, from 4.3 on.
pub async fn resolve_path(
    State(core): State<Arc<Core>>,
    caller: Caller,
    Path(uid): Path<String>,
    parameters: Parameters,
) -> Answer {
    caller.needs(Feature::ResolvePath)?;
    caller.may(Right::ResolvePaths)?;
    find(&core, &caller.user, &uid)?;
    let path = parameters
        .get("path")
        .filter(|path| path.starts_with('/'))
        .ok_or_else(|| Refusal::Invalid("path: must begin with `/`".to_owned()))?
        .to_owned();
    let backing = core.backing.clone();
    let asked = path.clone();
    let inode = tokio::task::spawn_blocking(move || backing.resolve(&uid, &asked))
        .await
        .map_err(io::Error::other)?
        .ok_or(Refusal::PathMissing(path))?;
    Ok(data(&json!({ "inode_id": inode.to_string() })))
}

/// The filesystem that a path names.
pub fn find(core: &Core, user: &User, uid: &str) -> Result<Filesystem, Refusal> {
    core.read(|state, _| access::filesystem(state, user, uid).cloned())
}

/// Bytes in a filesystem; none while its places are being made or removed.
fn used(core: &Core, filesystem: &Filesystem) -> u64 {
    core.backing
        .ledgers(&filesystem.uid)
        .read_total()
        .map_or(0, |record| record.used)
}

fn shown(core: &Core, filesystem: &Filesystem) -> Value {
    let now = core.read(|_, now| now);
    show::filesystem(filesystem, used(core, filesystem), now)
}
