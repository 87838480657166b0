//! What a volume is filled with: a snapshot, or another volume.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, ResourceExt as _};
use stowage_api::quantity;
use stowage_api::snapshot::{VolumeSnapshot, VolumeSnapshotContent};

use super::protection::SNAPSHOT_PROTECTION;
use crate::cluster::claim::{Claim, DataSource, SNAPSHOT_GROUP};
use crate::intent::Source;
use crate::role::Context;

/// Set by an administrator who knows that the content can be read in the other mode.
const ALLOW_MODE_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";

/// Why there is nothing to copy from.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// A populator fills such volumes; the claim is not ours to provision.
    #[error("claims with a data source of kind {0} are provisioned by the populator for that kind")]
    Populator(String),
    #[error("data sources of another namespace are not supported: `{0}` is in namespace `{1}`")]
    OtherNamespace(String, String),
    #[error("the driver cannot {0}")]
    Unable(&'static str),
    #[error(
        "the cluster has no VolumeSnapshots: install their kinds, for example with `stowage crds`"
    )]
    NoSnapshots,
    #[error("{what} `{name}` cannot be copied: {reason}")]
    Unusable {
        what: &'static str,
        name: String,
        reason: String,
    },
    #[error("{what} `{name}` cannot be read")]
    Unreadable {
        what: &'static str,
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// What a volume is copied from.
#[derive(Debug)]
pub(crate) struct Found {
    /// As the driver knows it.
    pub(crate) source: Source,
    /// Of the object.
    pub(crate) uid: String,
}

/// Finds the source of a claim's content.
pub(crate) async fn find(
    context: &Context,
    claim: &Claim,
    bytes: i64,
) -> Result<Option<Found>, SourceError> {
    let Some(source) = &claim.source else {
        return Ok(None);
    };
    if let Some(namespace) = &source.namespace
        && *namespace != claim.namespace
    {
        return Err(SourceError::OtherNamespace(
            source.name.clone(),
            namespace.clone(),
        ));
    }
    match (source.group.as_str(), source.kind.as_str()) {
        (SNAPSHOT_GROUP, "VolumeSnapshot") => snapshot(context, claim, source, bytes).await,
        ("", "PersistentVolumeClaim") => volume(context, claim, source, bytes).await,
        (_, kind) => Err(SourceError::Populator(kind.to_owned())),
    }
    .map(Some)
}

async fn snapshot(
    context: &Context,
    claim: &Claim,
    source: &DataSource,
    bytes: i64,
) -> Result<Found, SourceError> {
    if !context.driver.capabilities().create_delete_snapshot() {
        return Err(SourceError::Unable("restore snapshots"));
    }
    if !context.server.snapshots {
        return Err(SourceError::NoSnapshots);
    }
    let what = "snapshot";
    let unusable = |reason: String| unusable(what, &source.name, reason);
    let api = Api::<VolumeSnapshot>::namespaced(context.client.clone(), &claim.namespace);
    let snapshot = read(api.get_opt(&source.name).await, what, &source.name)?;
    let status = snapshot.status.clone().unwrap_or_default();
    // With our finalizer it stays until nobody waits for a copy of it: a claim that would not use it would wait for it
    // to go, and it for the claim.
    let is_kept = snapshot
        .finalizers()
        .iter()
        .any(|one| one == SNAPSHOT_PROTECTION);
    if snapshot.metadata.deletion_timestamp.is_some() && !is_kept {
        return Err(unusable("it is being deleted".to_owned()));
    }
    if status.ready_to_use != Some(true) {
        return Err(unusable("it is not ready yet".to_owned()));
    }
    let bound = status.bound_volume_snapshot_content_name;
    let name = bound.ok_or_else(|| unusable("it has no content yet".to_owned()))?;
    let contents = Api::<VolumeSnapshotContent>::all(context.client.clone());
    let bound = read(contents.get_opt(&name).await, "snapshot content", &name)?;
    let handle = check_content(context, claim, &bound, bytes, snapshot.uid().as_deref());
    Ok(Found {
        source: Source::Snapshot(handle.map_err(unusable)?),
        uid: snapshot.uid().unwrap_or_default(),
    })
}

/// Checks that a claim can be restored from a snapshot's content; returns the driver's id of it.
fn check_content(
    context: &Context,
    claim: &Claim,
    bound: &VolumeSnapshotContent,
    bytes: i64,
    snapshot: Option<&str>,
) -> Result<String, String> {
    let name = bound.name_any();
    let spec = &bound.spec;
    if spec.volume_snapshot_ref.uid.as_deref() != snapshot {
        return Err(format!("its content `{name}` belongs to another snapshot"));
    }
    if spec.driver != context.driver.name().as_str() {
        return Err(format!("it is of driver `{}`", spec.driver));
    }
    let status = bound.status.clone().unwrap_or_default();
    check_size(bytes, status.restore_size.unwrap_or(0))?;
    if context.settings.provision.keep_volume_mode && !may_change_mode(bound) {
        check_mode(claim, spec.source_volume_mode.as_deref())?;
    }
    let handle = status.snapshot_handle;
    handle.ok_or_else(|| format!("its content `{name}` has no handle yet"))
}

fn may_change_mode(content: &VolumeSnapshotContent) -> bool {
    let annotation = content.annotations().get(ALLOW_MODE_CHANGE);
    annotation.is_some_and(|value| is_true(value))
}

/// Whether an annotation says yes, in any of the ways that Go's `ParseBool` takes.
fn is_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "True" | "TRUE")
}

async fn volume(
    context: &Context,
    claim: &Claim,
    source: &DataSource,
    bytes: i64,
) -> Result<Found, SourceError> {
    if !context.driver.capabilities().clone_volume() {
        return Err(SourceError::Unable("clone volumes"));
    }
    let what = "claim";
    let unusable = |reason: String| unusable(what, &source.name, reason);
    let api = Api::<PersistentVolumeClaim>::namespaced(context.client.clone(), &claim.namespace);
    let original = read(api.get_opt(&source.name).await, what, &source.name)?;
    let spec = original.spec.clone().unwrap_or_default();
    let status = original.status.clone().unwrap_or_default();
    if original.metadata.deletion_timestamp.is_some() {
        return Err(unusable("it is being deleted".to_owned()));
    }
    let bound = spec
        .volume_name
        .filter(|_| status.phase.as_deref() == Some("Bound"));
    let name = bound.ok_or_else(|| unusable("it is not bound yet".to_owned()))?;
    let volumes = context.cluster.volumes.store();
    let Some(volume) = volumes.get(&name) else {
        return Err(unusable("its volume is of another driver".to_owned()));
    };
    if volume.is_in_tree() {
        return Err(unusable("its volume is of an in-tree plugin".to_owned()));
    }
    // What was asked for, not what the driver rounded it up to: that is asked for again, and rounded up again.
    let requested = spec
        .resources
        .and_then(|resources| resources.requests)
        .and_then(|mut requests| requests.remove("storage"));
    let size = requested.and_then(|requested| quantity::size(&requested.0).ok());
    check_size(bytes, size.unwrap_or(0)).map_err(unusable)?;
    check_mode(claim, spec.volume_mode.as_deref()).map_err(unusable)?;
    Ok(Found {
        source: Source::Volume(volume.csi.volume_handle.clone()),
        uid: original.uid().unwrap_or_default(),
    })
}

fn check_size(asked: i64, source: i64) -> Result<(), String> {
    if asked >= source {
        return Ok(());
    }
    Err(format!(
        "it has {source} bytes and the claim asks for {asked}: ask for at least as much"
    ))
}

fn check_mode(claim: &Claim, source: Option<&str>) -> Result<(), String> {
    // Nothing is said: a filesystem for claims, unknown for snapshots, and both are let through by upstream.
    let Some(source) = source else { return Ok(()) };
    let own = if claim.block { "Block" } else { "Filesystem" };
    if own == source {
        return Ok(());
    }
    Err(format!(
        "its volumeMode is {source} and the claim's is {own}"
    ))
}

fn read<K>(
    result: kube::Result<Option<K>>,
    what: &'static str,
    name: &str,
) -> Result<K, SourceError> {
    match result {
        Ok(Some(object)) => Ok(object),
        Ok(None) => Err(unusable(what, name, "it does not exist".to_owned())),
        Err(error) => Err(SourceError::Unreadable {
            what,
            name: name.to_owned(),
            source: Box::new(error),
        }),
    }
}

fn unusable(what: &'static str, name: &str, reason: String) -> SourceError {
    SourceError::Unusable {
        what,
        name: name.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_is_said_as_go_says_it() {
        for (value, expected) in [
            ("1", true),
            ("t", true),
            ("T", true),
            ("true", true),
            ("True", true),
            ("TRUE", true),
            ("tRUE", false),
            ("yes", false),
            ("0", false),
            ("false", false),
            ("", false),
        ] {
            assert_eq!(is_true(value), expected, "{value}");
        }
    }
}
