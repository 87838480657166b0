//! Whether an object whose immutable fields have changed may be deleted and created again, or what has to happen first.

use kube::ResourceExt;
use kube::api::DynamicObject;
use stowage_kubernetes::answer;

use super::context::Context;
use crate::cluster::attributes;
use crate::cluster::usage::{self, first_few};
use crate::driver::valid::UpdatePolicy;
use crate::driver::{Kind, Object, ValidDriver};

/// Why an object may not be deleted and created again.
pub(super) struct Blocked {
    /// What has to happen first.
    pub(super) remedy: String,
    /// Whether that may happen without a change of the instance.
    pub(super) may_pass: bool,
}

impl Blocked {
    fn for_now(remedy: String) -> Self {
        Self {
            remedy,
            may_pass: true,
        }
    }

    fn unknown(what: &str, error: &kube::Error) -> Self {
        let error = answer::chain(error);
        Self::for_now(format!(
            "It cannot be determined whether the {what} is in use: {error}"
        ))
    }
}

/// Whether an object may be deleted and created again.
pub(super) async fn may_recreate(
    driver: &ValidDriver,
    wanted: &Object,
    live: &DynamicObject,
    context: &Context,
) -> Result<(), Blocked> {
    let policy = match wanted.kind {
        Kind::StorageClass
        | Kind::VolumeSnapshotClass
        | Kind::VolumeGroupSnapshotClass
        | Kind::VolumeAttributesClass
        | Kind::CsiDriver => driver.update_policy(wanted.kind, &wanted.name),
        // Nobody refers to a binding.
        _ => UpdatePolicy::Recreate,
    };
    if policy != UpdatePolicy::Recreate {
        let remedy = "Set its `updatePolicy: Recreate` to have it deleted and created again, or revert the change";
        return Err(Blocked {
            remedy: remedy.to_owned(),
            may_pass: false,
        });
    }
    match wanted.kind {
        Kind::CsiDriver => driver_is_idle(&driver.driver_name, context).await,
        // From Kubernetes 1.34 on it would be neither there nor gone for as long as somebody uses it.
        Kind::VolumeAttributesClass if !live.finalizers().is_empty() => {
            class_is_unused(&wanted.name, context).await
        }
        _ => Ok(()),
    }
}

async fn driver_is_idle(driver: &str, context: &Context) -> Result<(), Blocked> {
    let usage = usage::of(&context.client, &context.cluster, driver).await;
    let usage = usage.map_err(|error| Blocked::unknown("driver", &error))?;
    if !usage.is_at_work() {
        return Ok(());
    }
    let when = "It is deleted and created again as soon as nothing uses the driver";
    Err(Blocked::for_now(format!("{when}; in use by {usage}")))
}

async fn class_is_unused(class: &str, context: &Context) -> Result<(), Blocked> {
    let users = attributes::users(&context.client, class).await;
    let users = users.map_err(|error| Blocked::unknown("class", &error))?;
    if users.is_empty() {
        return Ok(());
    }
    let (count, first) = (users.len(), first_few(&users));
    Err(Blocked::for_now(format!(
        "It is deleted and created again as soon as no claim or volume has it; in use by {count} ({first})"
    )))
}
