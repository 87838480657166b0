//! What users read, from what contents say. Pure.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};
use stowage_api::quantity;

use crate::content::Content;
use crate::request::{Kind, Status};

/// The status of a request that is bound to this content; `group` is the group it is a member of. When it was taken
/// and how large it is does not change once it is known.
pub(crate) fn desired(known: &Status, content: &Content, group: Option<String>) -> Status {
    let state = &content.state;
    let size = known.size.clone().filter(|size| size.0 != "0");
    let told = state.size.map(|bytes| Quantity(quantity::text(bytes)));
    Status {
        bound: Some(content.name.clone()),
        created: known.created.clone().or_else(|| state.created.clone()),
        ready: Some(state.ready),
        size: size.or(told),
        error: state.error.clone().filter(|_| !state.ready),
        group: known.group.clone().or(group),
    }
}

/// As it is written.
pub(crate) fn written(kind: Kind, status: &Status) -> Value {
    let bound = match kind {
        Kind::Single => "boundVolumeSnapshotContentName",
        Kind::Group => "boundVolumeGroupSnapshotContentName",
    };
    let mut value = json!({});
    let mut put = |key: &str, field: Option<Value>| {
        if let Some(field) = field {
            value[key] = field;
        }
    };
    put(bound, status.bound.as_ref().map(|name| json!(name)));
    put(
        "creationTime",
        status.created.as_ref().map(|time| json!(time)),
    );
    put("readyToUse", status.ready.map(|ready| json!(ready)));
    put("restoreSize", status.size.as_ref().map(|size| json!(size)));
    put("error", status.error.as_ref().map(|error| json!(error)));
    put(
        "volumeGroupSnapshotName",
        status.group.as_ref().map(|name| json!(name)),
    );
    value
}
