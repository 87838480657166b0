//! Reading whole kinds of objects, and what is said where an account may not.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{ListParams, ObjectList, PartialObjectMeta, Request};
use serde::de::DeserializeOwned;

use super::{Cluster, trouble};

/// Objects per request: small enough that a large cluster does not send everything at once.
const PAGE: u32 = 500;

/// Why something could not be read.
pub enum Failure {
    /// The right is missing. Collected, so that one message names all that are.
    Denied {
        verb: &'static str,
        resource: String,
        account: Option<String>,
    },
    Other(anyhow::Error),
}

impl Failure {
    /// What an answer to a request for a kind means.
    pub fn of<K: Resource<DynamicType = ()>>(
        cluster: &Cluster,
        verb: &'static str,
        error: &kube::Error,
    ) -> Self {
        let group = K::group(&());
        let separator = if group.is_empty() { "" } else { "." };
        let resource = format!("{}{separator}{group}", K::plural(&()));
        match error {
            kube::Error::Api(status) if status.code == 403 => Self::Denied {
                verb,
                resource,
                account: trouble::account_in(&status.message).map(str::to_owned),
            },
            other => Self::Other(trouble::request(
                cluster,
                &format!("{verb} {resource}"),
                other,
            )),
        }
    }
}

/// Hands every object of a kind to `take`.
pub async fn list<K>(cluster: &Cluster, take: impl FnMut(K)) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    pages(cluster, &K::url_path(&(), None), Content::Whole, take).await
}

/// The same in a version of their group, such as `snapshot.storage.k8s.io/v1beta1`.
pub async fn list_version<K>(
    cluster: &Cluster,
    group_version: &str,
    take: impl FnMut(K),
) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let path = format!("/apis/{group_version}/{}", K::plural(&()));
    pages(cluster, &path, Content::Whole, take).await
}

/// Hands the metadata of every object of a kind to `take`; the server sends nothing else.
pub async fn list_metadata<K>(
    cluster: &Cluster,
    mut take: impl FnMut(ObjectMeta),
) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + Debug,
{
    let path = K::url_path(&(), None);
    let take = |object: PartialObjectMeta<K>| take(object.metadata);
    pages(cluster, &path, Content::Metadata, take).await
}

/// What is asked for of each object.
#[derive(Clone, Copy)]
enum Content {
    Whole,
    Metadata,
}

async fn pages<K>(
    cluster: &Cluster,
    path: &str,
    content: Content,
    mut take: impl FnMut(K),
) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut params = ListParams::default().limit(PAGE);
    let failure = |error: &kube::Error| Failure::of::<K>(cluster, "list", error);
    loop {
        let request = match content {
            Content::Whole => Request::new(path).list(&params),
            Content::Metadata => Request::new(path).list_metadata(&params),
        };
        let request = request.map_err(|error| failure(&kube::Error::BuildRequest(error)))?;
        let page = cluster.client.request::<ObjectList<K>>(request).await;
        let page = page.map_err(|error| failure(&error))?;
        page.items.into_iter().for_each(&mut take);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(()),
        }
    }
}

/// One error for all answers: the first that is not about rights, or else every right that is missing, with the commands that
/// grant them as the ClusterRole `role`.
pub fn settle(
    role: &str,
    answers: impl IntoIterator<Item = Result<(), Failure>>,
) -> anyhow::Result<()> {
    let mut denied = Vec::new();
    let mut who = None;
    let mut needed = "list";
    for failure in answers.into_iter().filter_map(Result::err) {
        match failure {
            Failure::Other(error) => return Err(error),
            Failure::Denied {
                verb,
                resource,
                account,
            } => {
                needed = verb;
                if !denied.contains(&resource) {
                    denied.push(resource);
                }
                who = who.or(account);
            }
        }
    }
    if denied.is_empty() {
        return Ok(());
    }
    Err(trouble::denied(role, needed, &denied, who.as_deref()))
}
