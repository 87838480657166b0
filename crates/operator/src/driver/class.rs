//! How Kubernetes treats the driver, and the classes that users choose from.

use serde_json::{Value, json};

use super::object;
use super::object::{Kind, Object};
use super::valid::{ClassBase, CsiDriver, ValidDriver};

/// Marks the default StorageClass.
pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Marks a driver's default VolumeSnapshotClass.
pub const DEFAULT_SNAPSHOT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";

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
    driver.storage_classes.iter().map(|class| {
        let mut body = Value::Object(class.fields.clone());
        body["provisioner"] = json!(driver.driver_name);
        of_class(driver, Kind::StorageClass, &class.base, DEFAULT_CLASS, body)
    })
}

pub(super) fn snapshot_classes(driver: &ValidDriver) -> impl Iterator<Item = Object> {
    driver.snapshot_classes.iter().map(|class| {
        let body = json!({"driver": driver.driver_name, "deletionPolicy": class.deletion_policy});
        let kind = Kind::VolumeSnapshotClass;
        of_class(driver, kind, &class.base, DEFAULT_SNAPSHOT_CLASS, body)
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
