//! VolumeAttributesClasses: read when they are needed, in whichever version the server has them.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use stowage_kubernetes::answer;

use crate::driver::DriverName;
use crate::intent::AttributesClass;
use crate::server::Server;

/// Why a class cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClassError {
    #[error("cannot be used: the API server does not have this kind")]
    NoKind,
    #[error("does not exist")]
    Missing,
    #[error("is for driver `{0}`: name a class of this driver")]
    OtherDriver(String),
    #[error("cannot be read: {}", answer::chain(&**.0))]
    Unreadable(Box<kube::Error>),
}

/// Reads a class of this driver.
pub(crate) async fn find(
    client: &Client,
    server: &Server,
    driver: &DriverName,
    name: &str,
) -> Result<AttributesClass, ClassError> {
    let version = server.attributes_classes.ok_or(ClassError::NoKind)?;
    let version = version.trim_start_matches("storage.k8s.io/");
    let kind = GroupVersionKind::gvk("storage.k8s.io", version, "VolumeAttributesClass");
    let kind = ApiResource::from_gvk_with_plural(&kind, "volumeattributesclasses");
    let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
    let found = api.get_opt(name).await;
    let found = found.map_err(|error| ClassError::Unreadable(Box::new(error)))?;
    let class = found.ok_or(ClassError::Missing)?;
    let owner = class.data["driverName"].as_str().unwrap_or_default();
    if owner != driver.as_str() {
        return Err(ClassError::OtherDriver(owner.to_owned()));
    }
    let parameters = class.data["parameters"].as_object();
    let parameters = parameters.into_iter().flatten();
    Ok(AttributesClass {
        name: name.to_owned(),
        parameters: parameters
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
    })
}
