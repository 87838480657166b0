//! VolumeAttributesClasses: read when they are needed, in whichever version the server has them.

use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kube::api::DynamicObject;
use kube::{Api, Client};
use stowage_kubernetes::queue::Queue;
use stowage_kubernetes::store::Change;
use stowage_kubernetes::{answer, served};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::cluster::claim::Claim;
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
    let kind = served::at::<VolumeAttributesClass>(Some(version));
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

/// A class that came is news for the claims that name it and wait.
pub(crate) fn wake_waiting(
    cluster: &Cluster,
    queue: &Queue,
    waits: impl Fn(&Claim) -> bool + Send + Sync + 'static,
    stop: &CancellationToken,
) {
    let (claims, queue, stop) = (cluster.claims.clone(), queue.clone(), stop.clone());
    cluster.attributes_classes.listen(move |change| {
        let Change::Set { old, new } = change else {
            return;
        };
        if stop.is_cancelled() || old.as_ref() == Some(new) {
            return;
        }
        for claim in claims.store().all() {
            if claim.attributes_class.as_ref() == Some(&new.name) && waits(&claim) {
                queue.add(claim.uid.as_str());
            }
        }
    });
}
