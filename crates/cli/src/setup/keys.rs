//! The Secret with the keys of the driver for VPSAs. What is encrypted with them is lost with them: they are made once, and a Secret
//! that exists is never touched, whatever is in it.

use anyhow::Context;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use stowage_kubernetes::answer::Answer;

use super::say;
use crate::args::NamedIn;
use crate::cluster::{Cluster, trouble};

const KEYS: [&str; 2] = ["GLOBAL_ENCRYPTION_KEY", "CHAP_ENCRYPTION_KEY"];
const LENGTH: usize = 32;

/// Makes it where it is missing. Called twice, or by two at once: the first one made it.
pub async fn ensure(cluster: &Cluster, of: &NamedIn) -> anyhow::Result<()> {
    let api: Api<Secret> = Api::namespaced(cluster.client.clone(), &of.namespace);
    let title = format!("Secret {}/{}", of.namespace, of.name);
    let known = api.get_opt(&of.name).await;
    let known =
        known.map_err(|error| trouble::request(cluster, &format!("get {title}"), &error))?;
    if known.is_some() {
        return say(&format!("{title}: unchanged"));
    }
    let mut secret = Secret {
        metadata: ObjectMeta {
            name: Some(of.name.clone()),
            annotations: Some([("helm.sh/resource-policy".to_owned(), "keep".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    };
    let data = secret.string_data.get_or_insert_default();
    for name in KEYS {
        data.insert(name.to_owned(), new_key()?);
    }
    match api.create(&PostParams::default(), &secret).await {
        Ok(_) => say(&format!(
            "{title}: created with new keys; keep a copy, it is never deleted"
        )),
        Err(error) if matches!(Answer::of(&error), Answer::Conflict) => {
            say(&format!("{title}: unchanged"))
        }
        Err(error) => Err(trouble::request(
            cluster,
            &format!("create {title}"),
            &error,
        )),
    }
}

/// Letters and digits from the system's source of randomness.
fn new_key() -> anyhow::Result<String> {
    let mut bytes = [0; LENGTH * 8];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut bytes)
        .ok()
        .context("the system has no randomness")?;
    // Others are left out instead of being mapped: every letter is as likely as any other.
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let key: String = letters.take(LENGTH).map(|byte| char::from(*byte)).collect();
    if key.len() < LENGTH {
        new_key()
    } else {
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_letters_and_digits_and_never_the_same() {
        let (one, other) = (new_key().unwrap(), new_key().unwrap());
        assert_eq!((one.len(), other.len()), (LENGTH, LENGTH));
        assert!(one.chars().all(|it| it.is_ascii_alphanumeric()), "{one}");
        assert_ne!(one, other);
    }
}
