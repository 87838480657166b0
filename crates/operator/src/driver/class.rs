//! How Kubernetes treats the driver, and the classes that users choose from.

use serde_json::{Value, json};
use stowage_api::snapshot::names::{GROUP_SNAPSHOT, SNAPSHOT};

use super::object;
use super::object::{Kind, Object};
use super::valid::{ClassBase, CsiDriver, SnapshotClass, ValidDriver};

/// Marks the default StorageClass.
pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Marks a driver's default VolumeSnapshotClass.
pub const DEFAULT_SNAPSHOT_CLASS: &str = SNAPSHOT.default_class;
/// Marks a driver's default VolumeGroupSnapshotClass.
pub const DEFAULT_GROUP_SNAPSHOT_CLASS: &str = GROUP_SNAPSHOT.default_class;

pub(super) fn csi_driver(driver: &ValidDriver) -> Option<Object> {
    match &driver.csi_driver {
        CsiDriver::Wanted { spec, .. } => {
            let body = json!({"spec": spec});
            Some(object(
                &driver.owner,
                Kind::CsiDriver,
                &driver.driver_name,
                body,
            ))
        }
        CsiDriver::NameUnfit { .. } => None,
    }
}

pub(super) fn storage_classes(driver: &ValidDriver) -> impl Iterator<Item = Object> {
    driver.classes.storage.iter().map(|class| {
        let mut body = Value::Object(class.fields.clone());
        body["provisioner"] = json!(driver.driver_name);
        of_class(driver, Kind::StorageClass, &class.base, DEFAULT_CLASS, body)
    })
}

pub(super) fn snapshot_classes(driver: &ValidDriver) -> impl Iterator<Item = Object> {
    let of = |kind, mark, class: &SnapshotClass| {
        let body = json!({"driver": driver.driver_name, "deletionPolicy": class.deletion_policy});
        of_class(driver, kind, &class.base, mark, body)
    };
    let single = driver.classes.snapshot.iter();
    let single =
        single.map(move |class| of(Kind::VolumeSnapshotClass, DEFAULT_SNAPSHOT_CLASS, class));
    let groups = driver.classes.group_snapshot.iter();
    let groups = groups.map(move |class| {
        let mark = DEFAULT_GROUP_SNAPSHOT_CLASS;
        of(Kind::VolumeGroupSnapshotClass, mark, class)
    });
    single.chain(groups)
}

pub(super) fn attributes_classes(driver: &ValidDriver) -> impl Iterator<Item = Object> {
    driver.classes.attributes.iter().map(|base| {
        let body = json!({"driverName": driver.driver_name});
        // No claim gets one by default.
        of_class(driver, Kind::VolumeAttributesClass, base, "", body)
    })
}

fn of_class(
    driver: &ValidDriver,
    kind: Kind,
    base: &ClassBase,
    mark: &str,
    mut body: Value,
) -> Object {
    if let Some(parameters) = &base.parameters {
        body["parameters"] = json!(parameters);
    }
    let mut object = object(&driver.owner, kind, &base.name, body);
    // Ours win: without them the class would be lost to us.
    let ours = std::mem::replace(&mut object.labels, base.labels.clone());
    object.labels.extend(ours);
    object.annotations.clone_from(&base.annotations);
    // Where the template leaves it open the mark is an administrator's to set.
    if let Some(default) = base.default {
        object
            .annotations
            .insert(mark.to_owned(), default.to_string());
    }
    object
}
