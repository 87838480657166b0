//! Volumes and snapshots: what each needs of this driver.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume};
use stowage_api::snapshot::VolumeSnapshotContent;

use super::Facts;
use super::flags::Settings;
use super::report::Checked;
use super::secrets::{SecretName, needs};
use crate::handle::{Backing, Handle, Origin};
use crate::options::{OptionError, Options};
use crate::snapshot_id::SnapshotId;

const DELETION_SECRET: [&str; 2] = [
    "volume.kubernetes.io/provisioner-deletion-secret-name",
    "volume.kubernetes.io/provisioner-deletion-secret-namespace",
];
const SNAPSHOT_DELETION_SECRET: [&str; 2] = [
    "snapshot.storage.kubernetes.io/deletion-secret-name",
    "snapshot.storage.kubernetes.io/deletion-secret-namespace",
];

/// The secrets that a volume names, and what for.
pub(super) fn secrets(volume: &PersistentVolume) -> Vec<(&'static str, SecretName)> {
    let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    let Some(csi) = csi else {
        return Vec::new();
    };
    let named = [
        ("node-publish", &csi.node_publish_secret_ref),
        ("controller-expand", &csi.controller_expand_secret_ref),
        ("controller-publish", &csi.controller_publish_secret_ref),
        ("node-stage", &csi.node_stage_secret_ref),
        ("node-expand", &csi.node_expand_secret_ref),
    ];
    let named = named
        .into_iter()
        .filter_map(|(purpose, reference)| Some((purpose, SecretName::of(reference.as_ref()?)?)));
    let annotations = volume.metadata.annotations.as_ref();
    let deletion = annotations.and_then(|annotations| annotated(annotations, DELETION_SECRET));
    named
        .chain(deletion.map(|name| ("deletion", name)))
        .collect()
}

/// The secret with which a snapshot is deleted.
pub(super) fn snapshot_secret(content: &VolumeSnapshotContent) -> Option<SecretName> {
    annotated(
        content.metadata.annotations.as_ref()?,
        SNAPSHOT_DELETION_SECRET,
    )
}

/// The provisioner writes both annotations on every volume: without a secret they are empty.
fn annotated(
    annotations: &std::collections::BTreeMap<String, String>,
    [name, namespace]: [&str; 2],
) -> Option<SecretName> {
    let name = annotations.get(name).filter(|it| !it.is_empty())?;
    Some(SecretName {
        namespace: annotations.get(namespace)?.clone(),
        name: name.clone(),
    })
}

/// What a volume needs, and what is different for it.
pub(super) fn check(volume: &PersistentVolume, facts: &Facts, settings: &Settings) -> Checked {
    let spec = volume.spec.clone().unwrap_or_default();
    let csi = spec.csi.clone().unwrap_or_default();
    let mut checked = Checked {
        name: volume.metadata.name.clone().unwrap_or_default(),
        used_by: spec.claim_ref.as_ref().and_then(used_by),
        handle: Some(csi.volume_handle.clone()),
        ..Checked::default()
    };
    match Handle::parse(&csi.volume_handle) {
        Ok(handle) => {
            checked.kind = Some(kind(handle.backing()));
            let deletes = spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete");
            checked.remarks.extend(deletion(&handle, deletes, settings));
        }
        Err(error) => checked.needs.push(format!(
            "{error}: create the PersistentVolume again with a valid handle"
        )),
    }
    if spec.volume_mode.as_deref() == Some("Block") {
        checked.needs.push(
            "it is a block volume, and this driver has none: use `volumeMode: Filesystem`"
                .to_owned(),
        );
    }
    let modes = spec.access_modes.unwrap_or_default();
    if modes.first().map(String::as_str) == Some("ReadOnlyMany") {
        checked.remarks.push(
            "it is read-only (ReadOnlyMany), which WEKA's plugin does not enforce: pods that run keep it as it is, others cannot write".to_owned(),
        );
    }
    let attributes = csi.volume_attributes.clone().unwrap_or_default();
    let listed = attributes.get("mountOptions").cloned().into_iter();
    for list in listed.chain(spec.mount_options.unwrap_or_default()) {
        match Options::parse(&list).check(&settings.config.vocabulary) {
            Ok(()) => {}
            Err(OptionError::Unknown(name)) => checked.remarks.push(format!(
                "its mount option `{name}` is not known to this driver, which passes it on to the Weka client"
            )),
            Err(error) => checked.needs.push(error.to_string()),
        }
    }
    let secrets = secrets(volume);
    checked.needs.extend(needs(facts, secrets.clone()));
    if !secrets
        .iter()
        .any(|(purpose, _)| *purpose == "node-publish")
    {
        checked.remarks.push(without_secret(facts));
    }
    checked
}

/// What happens without a secret.
pub(super) fn without_secret(facts: &Facts) -> String {
    let mut legacy = facts.plugin_workloads().into_iter();
    match legacy.find_map(super::Workload::legacy_secret) {
        Some(secret) => {
            format!("it names no secret: the legacy secret `{secret}` is used, as before")
        }
        None => "it names no secret: the driver uses no API for it, as before".to_owned(),
    }
}

fn deletion(handle: &Handle, deletes: bool, settings: &Settings) -> Option<String> {
    let paths = &settings.config.dynamic_paths;
    if let Some(earlier) = earlier_path(handle, settings) {
        return Some(format!(
            "it is below the earlier dynamic path `{}`: `--earlier-dynamic-path`, which the manifest has, lets the driver delete it",
            earlier.display()
        ));
    }
    (deletes && handle.origin(paths) == Origin::Static).then(|| {
        "the driver does not delete it, because nothing shows that a driver made it: use the reclaim policy Retain".to_owned()
    })
}

/// The directory in which a driver made this volume, if that is not where new ones are made.
pub(super) fn earlier_path(handle: &Handle, settings: &Settings) -> Option<PathBuf> {
    let is_directory = handle.backing() == Backing::Directory;
    let parent = is_directory.then(|| handle.derived_parent())??;
    let known = settings.config.dynamic_paths.contain(&parent);
    (!known).then_some(parent)
}

/// What a snapshot needs.
pub(super) fn snapshot(
    content: &VolumeSnapshotContent,
    facts: &Facts,
    settings: &Settings,
) -> Checked {
    let status = content.status.as_ref();
    let handle = status.and_then(|status| status.snapshot_handle.as_ref());
    let handle = handle.or(content.spec.source.snapshot_handle.as_ref());
    let mut checked = Checked {
        name: content.metadata.name.clone().unwrap_or_default(),
        used_by: used_by(&content.spec.volume_snapshot_ref),
        handle: handle.cloned(),
        ..Checked::default()
    };
    match handle.map(|handle| SnapshotId::parse(handle)) {
        None => checked
            .remarks
            .push("it is not taken yet: this driver takes it".to_owned()),
        Some(Err(error)) => checked.needs.push(error.to_string()),
        Some(Ok(id)) => {
            checked.kind = Some("snapshot");
            if id.is_of_directory() && !settings.config.volumes.snapshots_of_directories {
                checked.remarks.push(
                    "it is of a directory volume: restores of it need `--allowsnapshotsofdirectoryvolumes`".to_owned(),
                );
            }
        }
    }
    let secret = snapshot_secret(content);
    let secret = secret.map(|secret| ("deletion", secret));
    checked.needs.extend(needs(facts, secret));
    checked
}

fn used_by(reference: &ObjectReference) -> Option<String> {
    let namespace = reference.namespace.as_deref()?;
    Some(format!("{namespace}/{}", reference.name.as_deref()?))
}

fn kind(backing: Backing) -> &'static str {
    match backing {
        Backing::Directory => "directory",
        Backing::Filesystem => "filesystem",
        Backing::Snapshot => "writable snapshot",
        Backing::Hybrid => "directory in a writable snapshot",
    }
}
