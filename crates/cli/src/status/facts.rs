//! What the cluster says, unjudged.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass};
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::version;
use crate::cluster::{Cluster, trouble};

/// Objects per request: small enough that a large cluster does not send everything at once.
const PAGE: u32 = 500;

/// Everything that is read for one report.
#[derive(Debug, Default)]
pub struct Facts {
    /// Version of the API server, such as `v1.20.2`.
    pub server: String,
    pub csi_drivers: Vec<CSIDriver>,
    pub csi_nodes: Vec<CSINode>,
    pub nodes: Vec<Node>,
    pub storage_classes: Vec<StorageClass>,
    /// Number of volumes by driver; the volumes themselves are not kept.
    pub volumes: BTreeMap<String, usize>,
}

/// Why a resource could not be listed.
enum Failure {
    /// The right is missing. Collected, so that one message names all that are.
    Denied {
        resource: String,
        account: Option<String>,
    },
    Other(anyhow::Error),
}

/// Asks for the server's version first, then for everything at once.
pub async fn gather(cluster: &Cluster) -> anyhow::Result<Facts> {
    let info = cluster
        .client
        .apiserver_version()
        .await
        .map_err(|error| trouble::request(cluster, "get /version", &error))?;
    let mut facts = Facts {
        server: version::check(&info)?,
        ..Facts::default()
    };
    let answers: [Result<(), Failure>; 5] = tokio::join!(
        list(cluster, |object| facts.csi_drivers.push(object)),
        list(cluster, |object| facts.csi_nodes.push(object)),
        list(cluster, |object| facts.nodes.push(object)),
        list(cluster, |object| facts.storage_classes.push(object)),
        list(cluster, |object: PersistentVolume| {
            if let Some(csi) = object.spec.and_then(|spec| spec.csi) {
                *facts.volumes.entry(csi.driver).or_default() += 1;
            }
        }),
    )
    .into();
    settle(answers)?;
    Ok(facts)
}

/// Hands every object of a kind to `take`.
async fn list<K>(cluster: &Cluster, mut take: impl FnMut(K)) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(cluster.client.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api
            .list(&params)
            .await
            .map_err(|error| failure::<K>(cluster, &error))?;
        page.items.into_iter().for_each(&mut take);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(()),
        }
    }
}

fn failure<K: Resource<DynamicType = ()>>(cluster: &Cluster, error: &kube::Error) -> Failure {
    let group = K::group(&());
    let separator = if group.is_empty() { "" } else { "." };
    let resource = format!("{}{separator}{group}", K::plural(&()));
    match error {
        kube::Error::Api(status) if status.code == 403 => Failure::Denied {
            resource,
            account: trouble::account_in(&status.message).map(str::to_owned),
        },
        other => Failure::Other(trouble::request(
            cluster,
            &format!("list {resource}"),
            other,
        )),
    }
}

/// One error for all answers: the first that is not about rights, or else every right that is missing.
fn settle(answers: impl IntoIterator<Item = Result<(), Failure>>) -> anyhow::Result<()> {
    let mut denied = Vec::new();
    let mut who = None;
    for failure in answers.into_iter().filter_map(Result::err) {
        match failure {
            Failure::Other(error) => return Err(error),
            Failure::Denied { resource, account } => {
                denied.push(resource);
                who = who.or(account);
            }
        }
    }
    if denied.is_empty() {
        return Ok(());
    }
    Err(trouble::denied(&denied, who.as_deref()))
}
