//! Adds and removes one finalizer without losing anybody else's.
//!
//! The list is compared inside the request: two writers at once are a conflict and not a loss. Objects that may only be
//! updated go through [`metadata::change`](crate::metadata::change) instead.

use std::fmt::Debug;

use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::answer::Answer;
use crate::json_patch::{ObjectPatch, PARAMS};

/// How often a list that changed under our hands is read again.
const ATTEMPTS: usize = 5;

/// An object as it was last seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid: another object of this name is left alone.
    pub uid: &'a str,
    /// Its finalizers.
    pub finalizers: &'a [String],
}

/// The list with this finalizer, once.
pub fn with(known: &[String], finalizer: &str) -> Vec<String> {
    let mut all = known.to_vec();
    if !all.iter().any(|name| name == finalizer) {
        all.push(finalizer.to_owned());
    }
    all
}

/// The list without this finalizer.
pub fn without(known: &[String], finalizer: &str) -> Vec<String> {
    let others = known.iter().filter(|name| *name != finalizer);
    others.cloned().collect()
}

/// Adds a finalizer. False: the object is gone or being deleted, and is left alone. Called twice: it is there once.
pub async fn add<K>(api: &Api<K>, seen: Seen<'_>, finalizer: &str) -> kube::Result<bool>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    change(api, seen, |known| with(known, finalizer), true).await
}

/// Removes a finalizer. Called twice: the second finds nothing to do. An object that is gone is left alone.
pub async fn remove<K>(api: &Api<K>, seen: Seen<'_>, finalizer: &str) -> kube::Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    change(api, seen, |known| without(known, finalizer), false).await?;
    Ok(())
}

/// False: there is no such object any more, or not for long.
async fn change<K>(
    api: &Api<K>,
    seen: Seen<'_>,
    wanted: impl Fn(&[String]) -> Vec<String>,
    only_if_it_stays: bool,
) -> kube::Result<bool>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut known = seen.finalizers.to_vec();
    let mut attempt = 1;
    loop {
        let all = wanted(&known);
        if all == known {
            return Ok(true);
        }
        let patch = ObjectPatch::of(seen.uid).replace_finalizers(&known, &all);
        let written = api.patch(seen.name, &PARAMS, &patch.into_patch()).await;
        let Err(error) = written else {
            return Ok(true);
        };
        match Answer::of(&error) {
            Answer::Gone => return Ok(false),
            answer if answer.is_stale() && attempt < ATTEMPTS => {}
            _ => return Err(error),
        }
        attempt += 1;
        let Some(live) = api.get_opt(seen.name).await? else {
            return Ok(false);
        };
        let leaves = only_if_it_stays && live.meta().deletion_timestamp.is_some();
        if live.uid().as_deref() != Some(seen.uid) || leaves {
            return Ok(false);
        }
        known = live.finalizers().to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_others_stay_in_their_order() {
        let known = ["a".to_owned(), "b".to_owned()];
        assert_eq!(with(&known, "c"), ["a", "b", "c"]);
        assert_eq!(with(&known, "a"), known);
        assert_eq!(without(&known, "a"), ["b"]);
        assert_eq!(without(&known, "c"), known);
    }
}
