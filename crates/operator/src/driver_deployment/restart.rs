//! `restartOn`: the driver's pods are replaced when a ConfigMap or a Secret changes that the instance names.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::context::Context;
use super::problem::Problem;
use crate::cluster::{Look, NamedObject};
use crate::driver::ValidDriver;

/// A text that changes whenever pods are to be replaced; `None`: only their template decides.
pub(super) async fn hash(
    driver: &ValidDriver,
    context: &Context,
) -> Result<Option<String>, Problem> {
    let (wanted, name) = (&driver.restart_on, &driver.driver_name);
    let objects = |names: &[String], is_secret| {
        let namespace = driver.owner.namespace.clone();
        let object = move |name: &String| NamedObject {
            is_secret,
            namespace: namespace.clone(),
            name: name.clone(),
        };
        names.iter().map(object).collect::<Vec<_>>()
    };
    let config_maps = objects(&wanted.config_maps, false);
    let all = config_maps
        .into_iter()
        .chain(objects(&wanted.secrets, true));
    let all = all.collect();
    context.cluster.follow_objects(&context.client, name, &all);
    if wanted.is_empty() {
        return Ok(None);
    }
    hash_of(&context.cluster.looks(name).await, &context.namespace).map(Some)
}

/// Nobody asks for the objects of a driver any more. Called twice: nothing is followed.
pub(super) fn follow_nothing(driver: &str, context: &Context) {
    let nothing = BTreeSet::new();
    context
        .cluster
        .follow_objects(&context.client, driver, &nothing);
}

/// Better no change at all than one for an object that nobody could see.
fn hash_of(looks: &BTreeMap<NamedObject, Look>, namespace: &str) -> Result<String, Problem> {
    let mut hash = Sha256::new();
    for (object, look) in looks {
        let version = match look {
            Look::There(version) => version.as_str(),
            Look::Missing => "",
            Look::Unknown => return Err(Problem::unread(object)),
            Look::Forbidden => return Err(Problem::may_not_follow(object, namespace)),
        };
        hash.update(format!("{object}={version}\n"));
    }
    let short = &hash.finalize()[..8];
    Ok(short.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(look: Look) -> Result<String, Problem> {
        let object = NamedObject {
            is_secret: true,
            namespace: "n".to_owned(),
            name: "s".to_owned(),
        };
        hash_of(&BTreeMap::from([(object, look)]), "here")
    }

    #[test]
    fn a_change_is_another_hash_and_what_nobody_can_see_is_none() {
        let there = |version: &str| hash(Look::There(version.to_owned())).ok();
        assert!(there("1").is_some());
        assert_eq!(there("1"), there("1"));
        assert_ne!(there("1"), there("2"));
        assert_ne!(there("1"), hash(Look::Missing).ok());
        let refused = hash(Look::Forbidden).unwrap_err();
        for words in ["Secret n/s", "--serviceaccount=here:csi-operator"] {
            assert!(refused.message.contains(words), "{refused:?}");
        }
        // Somebody has to grant the one; the other may be over in a moment.
        assert!(refused.needs_a_person());
        assert!(!hash(Look::Unknown).unwrap_err().needs_a_person());
    }
}
