//! Long lists, page by page: they neither fill the memory of whoever asks nor keep the server busy for long.

use std::fmt::Debug;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;

/// How many objects are asked for at a time, as `kubectl` does it.
const PAGE: u32 = 500;
/// How often a list is begun with again that the server has lost its place in.
const ATTEMPTS: usize = 3;

/// What is kept of the objects of a list.
///
/// Called twice: the second one is as new as the server is then.
pub async fn list<K, T>(
    api: &Api<K>,
    params: &ListParams,
    keep: impl Fn(K) -> Option<T>,
) -> kube::Result<Vec<T>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut attempts = 0;
    loop {
        attempts += 1;
        match pages(api, params, &keep).await {
            // It compacted what was to be continued.
            Err(kube::Error::Api(status)) if status.code == 410 && attempts < ATTEMPTS => {}
            listed => return listed,
        }
    }
}

async fn pages<K, T>(
    api: &Api<K>,
    params: &ListParams,
    keep: impl Fn(K) -> Option<T>,
) -> kube::Result<Vec<T>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut kept = Vec::new();
    let mut params = params.clone().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        kept.extend(page.items.into_iter().filter_map(&keep));
        match page.metadata.continue_.filter(|it| !it.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(kept),
        }
    }
}
