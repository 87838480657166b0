//! The array itself: controllers, pools, health, settings.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::answer::{self, Answer, done};
use super::ask::Asked;
use super::page;
use super::show::View;
use crate::vpsa::core::Core;
use crate::vpsa::state::{self, Change, Object, Refusal, Vpsa, pools};

/// Looks at the state as objects are shown.
pub fn view<T>(core: &Core, look: impl FnOnce(View<'_>) -> T) -> T {
    core.read(|state, now| {
        look(View {
            state,
            now,
            addresses: &core.addresses,
        })
    })
}

/// One page of a list.
pub fn listed(
    core: &Core,
    asked: &Asked,
    name: &str,
    items: impl FnOnce(View<'_>) -> Vec<Value>,
) -> Answer {
    let items = view(core, items);
    let most = core.controls.knobs().page_size;
    let page = page::cut(&asked.parameters, most, items).map_err(|wrong| asked.wrong(wrong))?;
    Ok(answer::list(core, name, &page))
}

/// `GET vcontrollers`.
pub async fn controllers(State(core): State<Arc<Core>>, asked: Asked) -> Answer {
    listed(&core, &asked, "vcontrollers", |view| {
        let all = view.state.controllers.values();
        all.map(|controller| view.controller(controller)).collect()
    })
}

/// `GET pools`.
pub async fn pools(State(core): State<Arc<Core>>, asked: Asked) -> Answer {
    listed(&core, &asked, "pools", |view| {
        view.state
            .pools
            .values()
            .map(|pool| view.pool(pool))
            .collect()
    })
}

/// `GET pools/{id}`.
pub async fn pool(State(core): State<Arc<Core>>, Path(id): Path<String>, asked: Asked) -> Answer {
    let shown = view(&core, |view| {
        pools::get(view.state, &id).map(|pool| view.pool(pool))
    });
    let shown = shown.map_err(|refusal| asked.wrong(refusal))?;
    Ok(done(&core, json!({ "pool": shown })))
}

/// `GET drives`.
pub async fn drives(State(core): State<Arc<Core>>, asked: Asked) -> Answer {
    listed(&core, &asked, "disks", |view| {
        let all = view.state.drives.values();
        all.map(|drive| json!({ "name": drive.id, "status": drive.status }))
            .collect()
    })
}

/// `GET raid_groups`.
pub async fn raid_groups(State(core): State<Arc<Core>>, asked: Asked) -> Answer {
    listed(&core, &asked, "raid_groups", |view| {
        let all = view.state.raid_groups.values();
        all.map(|group| json!({ "name": group.id, "status": group.status }))
            .collect()
    })
}

/// `GET config`.
pub async fn config(State(core): State<Arc<Core>>, _asked: Asked) -> Answer {
    let config = core.read(|state, _| {
        let vpsa = state.vpsa();
        json!({
            "name": vpsa.id,
            "display_name": vpsa.display_name,
            "software_version": vpsa.release,
            "recycle_bin": if vpsa.recycle_bin { "YES" } else { "NO" },
            "all_flash": if vpsa.all_flash { "YES" } else { "NO" },
        })
    });
    Ok(done(&core, json!({ "config": config })))
}

/// `POST settings/set_recycle_bin`.
pub async fn set_recycle_bin(State(core): State<Arc<Core>>, asked: Asked) -> Answer {
    set(&core, &asked, &["recyclebin"], |vpsa, parameters| {
        parameters.required("recyclebin")?;
        vpsa.recycle_bin = parameters.switch("recyclebin", true)?;
        Ok(())
    })
    .await
}

/// `POST settings/encryption`.
pub async fn set_encryption(State(core): State<Arc<Core>>, asked: Asked) -> Answer {
    let known = ["encryption_pwd", "old_encryption_pwd"];
    set(&core, &asked, &known, |vpsa, parameters| {
        parameters.required("encryption_pwd")?;
        vpsa.encryption = true;
        Ok(())
    })
    .await
}

async fn set(
    core: &Core,
    asked: &Asked,
    known: &[&str],
    change: impl FnOnce(&mut Vpsa, &state::Parameters) -> Result<(), Refusal>,
) -> Answer {
    let changed = core.change(|state, _| {
        asked.parameters.only(known)?;
        let mut vpsa = state.vpsa().clone();
        change(&mut vpsa, &asked.parameters)?;
        Ok((vec![Change::Put(Object::Vpsa(vpsa))], ()))
    });
    changed.await.map_err(|failure| asked.wrong(failure))?;
    Ok(done(core, json!({})))
}
