//! Classes: what claims and snapshots of each need of this driver.

use std::collections::BTreeMap;

use k8s_openapi::api::storage::v1::StorageClass;
use stowage_api::snapshot::VolumeSnapshotClass;

use super::Facts;
use super::flags::Settings;
use super::report::Checked;
use super::secrets::{ClassSecret, needs, of_class};
use super::volumes::without_secret;
use crate::parameters::{ClassBacking, ParameterError, Parameters, unknown};

/// What a StorageClass names secrets for.
pub(super) const PURPOSES: [&str; 6] = [
    "provisioner",
    "controller-publish",
    "controller-expand",
    "node-stage",
    "node-publish",
    "node-expand",
];
/// What a VolumeSnapshotClass names secrets for.
pub(super) const SNAPSHOT_PURPOSES: [&str; 2] = ["snapshotter", "snapshotter-list"];

/// What claims of a class need.
pub(super) fn storage(class: &StorageClass, facts: &Facts, settings: &Settings) -> Checked {
    let parameters = class.parameters.clone().unwrap_or_default();
    let mut checked = Checked {
        name: class.metadata.name.clone().unwrap_or_default(),
        ..Checked::default()
    };
    match Parameters::parse(&parameters, &BTreeMap::new(), &settings.config.vocabulary) {
        Ok(parsed) => {
            checked.kind = Some(kind(&parsed.backing));
            checked.needs.extend(flag_needed(&parsed.backing, settings));
        }
        Err(error) => checked.needs.push(refused(&error)),
    }
    let ignored = unknown(&parameters);
    if !ignored.is_empty() {
        checked.remarks.push(format!(
            "its parameters have no effect: {}",
            ignored.join(", ")
        ));
    }
    secrets(&parameters, &PURPOSES, facts, &mut checked);
    if !parameters.contains_key("csi.storage.k8s.io/provisioner-secret-name") {
        checked.remarks.push(without_secret(facts));
    }
    checked
}

/// What snapshots of a class need.
pub(super) fn snapshot(class: &VolumeSnapshotClass, facts: &Facts) -> Checked {
    let parameters = class.spec.parameters.clone().unwrap_or_default();
    let mut checked = Checked {
        name: class.metadata.name.clone().unwrap_or_default(),
        ..Checked::default()
    };
    secrets(&parameters, &SNAPSHOT_PURPOSES, facts, &mut checked);
    checked
}

/// Parameters of a class cannot be changed, so the remedy is another class.
fn refused(error: &ParameterError) -> String {
    format!("{error} (new claims wait until the class is deleted and created again; volumes go on)")
}

fn flag_needed(backing: &ClassBacking, settings: &Settings) -> Option<String> {
    let rules = &settings.config.volumes;
    match backing {
        ClassBacking::Filesystem(_) if !rules.create_filesystems => Some(
            "new claims of it are filesystems, and the plugin runs without `--allowautofscreation`: add the flag to the controller, or delete the class".to_owned(),
        ),
        ClassBacking::Filesystem(new)
            if new.encryption.without_kms && !rules.encrypt_without_kms =>
        {
            Some("`encryptWithoutKms` needs `--allowencryptionwithoutkms`: add the flag to the controller, or delete the class".to_owned())
        }
        ClassBacking::Directory(_) | ClassBacking::Snapshot(_) | ClassBacking::Filesystem(_) => None,
    }
}

fn secrets(
    parameters: &BTreeMap<String, String>,
    purposes: &[&'static str],
    facts: &Facts,
    checked: &mut Checked,
) {
    let mut fixed = Vec::new();
    for secret in of_class(parameters, purposes) {
        match secret {
            Ok((purpose, ClassSecret::Fixed(name))) => fixed.push((purpose, name)),
            Ok((purpose, ClassSecret::ByClaim(template))) => checked.remarks.push(format!(
                "its secret `{template}` ({purpose}) depends on the claim and was not looked at; the instance has `sidecars.secretAccess: Cluster`, which needs `kubectl apply -f deploy/secrets-of-all-namespaces.yaml`"
            )),
            Ok((purpose, ClassSecret::Invalid(problem))) => {
                checked.needs.push(format!("{problem} ({purpose})"));
            }
            Err(problem) => checked.needs.push(problem),
        }
    }
    checked.needs.extend(needs(facts, fixed));
}

fn kind(backing: &ClassBacking) -> &'static str {
    match backing {
        ClassBacking::Directory(_) => "directories",
        ClassBacking::Snapshot(_) => "writable snapshots",
        ClassBacking::Filesystem(_) => "filesystems",
    }
}
