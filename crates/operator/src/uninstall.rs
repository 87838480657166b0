//! Lets go of everything that waits for an operator which is gone for good.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, Error, Resource, ResourceExt};
use stowage_api::driver_deployment::{self, CSIDriverDeployment};
use stowage_api::weka::{self, WekaClient, WekaContainer};
use stowage_kubernetes::answer::Answer;
use stowage_kubernetes::finalizer::{self, Seen};

use crate::driver_deployment::release_nodes;

/// An operator that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningOperator {
    /// Its process.
    pub holder: String,
    /// The namespace of its lease.
    pub namespace: String,
}

/// Who holds the operator's lease, in whichever namespace it is: it would put its finalizers back.
pub async fn running_operator(
    client: &Client,
    lease: &str,
) -> Result<Option<RunningOperator>, Error> {
    let named = ListParams::default().fields(&format!("metadata.name={lease}"));
    let leases = Api::<Lease>::all(client.clone()).list(&named).await?;
    let mut holders = leases.into_iter().filter_map(|lease| {
        let namespace = lease.namespace().unwrap_or_default();
        let holder = holder(lease.spec?)?;
        Some(RunningOperator { holder, namespace })
    });
    Ok(holders.next())
}

/// Who holds a lease, if it has not run out.
fn holder(spec: LeaseSpec) -> Option<String> {
    let limit = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    let is_alive = spec.renew_time.is_some_and(|renewed| {
        let age = jiff::Timestamp::now().duration_since(renewed.0);
        age.as_secs() <= limit
    });
    let holder = spec.holder_identity.filter(|it| !it.is_empty());
    holder.filter(|_| is_alive)
}

/// Takes the operator's finalizers from all its resources; which those were. Called twice: the second finds none.
///
/// Their objects stay: drivers go on running, and nobody looks after them. Nodes that were being emptied get their pods back.
pub async fn let_go(client: &Client) -> Result<Vec<String>, Error> {
    let nodes = async |instance: &DynamicObject| release_nodes(client, instance).await;
    let nothing = async |_: &DynamicObject| Ok(());
    let finalizer = driver_deployment::FINALIZER;
    let mut released = of_kind::<CSIDriverDeployment>(client, finalizer, nodes).await?;
    released.extend(of_kind::<WekaClient>(client, weka::FINALIZER, nothing).await?);
    released.extend(of_kind::<WekaContainer>(client, weka::FINALIZER, nothing).await?);
    Ok(released)
}

/// Read as they are stored: also those that cannot be read otherwise are to be let go. `before`: what has to be done first.
async fn of_kind<K: Resource<DynamicType = ()>>(
    client: &Client,
    finalizer: &str,
    before: impl AsyncFn(&DynamicObject) -> Result<(), Error>,
) -> Result<Vec<String>, Error> {
    let resource = ApiResource::erase::<K>(&());
    let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let all = match all.list(&ListParams::default()).await {
        Err(error) if Answer::of(&error) == Answer::NotServed => return Ok(Vec::new()),
        all => all?,
    };
    let mut released = Vec::new();
    for object in all {
        if !object.finalizers().iter().any(|it| it == finalizer) {
            continue;
        }
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource);
        let seen = Seen {
            name: &name,
            uid: &object.uid().unwrap_or_default(),
            finalizers: object.finalizers(),
        };
        before(&object).await?;
        finalizer::remove(&api, seen, finalizer).await?;
        released.push(format!("{} {namespace}/{name}", K::kind(&())));
    }
    Ok(released)
}
