//! The parameters of a snapshot class: what is for the driver, and the secret with which snapshots are looked at.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;
use stowage_kubernetes::secret_template::{
    IncompleteReference, PREFIX, SecretTemplate, TemplateError,
};

use crate::cluster::content::{Content, Kind};

/// Whose secrets there are, in the words of the keys.
const SECRETS: [&str; 4] = [
    "snapshotter-",
    "snapshotter-list-",
    "group-snapshotter-",
    "group-snapshotter-get-",
];

/// What is wrong with the parameters of a class.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParameterError {
    #[error("parameter `{0}` is unknown: keys that begin with `{PREFIX}` are not for the driver")]
    Unknown(String),
    #[error(transparent)]
    Incomplete(#[from] IncompleteReference),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// What the driver is given.
pub(super) fn for_driver(
    parameters: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ParameterError> {
    let known = |key: &str| {
        SECRETS.iter().any(|whose| {
            key == format!("{PREFIX}{whose}secret-name")
                || key == format!("{PREFIX}{whose}secret-namespace")
        })
    };
    let mut rest = BTreeMap::new();
    for (key, value) in parameters {
        match key.starts_with(PREFIX) {
            true if known(key) => {}
            true => return Err(ParameterError::Unknown(key.clone())),
            false => {
                rest.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(rest)
}

/// The secret with which snapshots are looked at. It names the content only: the user's object may be gone.
pub(super) fn look_secret(
    parameters: &BTreeMap<String, String>,
    content: &Content,
) -> Result<Option<SecretReference>, ParameterError> {
    let (whose, placeholder) = match content.kind {
        Kind::Single => ("snapshotter-list-", "volumesnapshotcontent.name"),
        Kind::Group => ("group-snapshotter-get-", "volumegroupsnapshotcontent.name"),
    };
    let Some(template) = SecretTemplate::of(parameters, whose)? else {
        return Ok(None);
    };
    let value = |token: &str| (token == placeholder).then_some(Ok(content.name.as_str()));
    Ok(Some(template.fill(value, value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_for_the_driver_reaches_it() {
        let parameters = BTreeMap::from([
            ("tier".to_owned(), "gold".to_owned()),
            (format!("{PREFIX}snapshotter-secret-name"), "s".to_owned()),
            (
                format!("{PREFIX}snapshotter-secret-namespace"),
                "n".to_owned(),
            ),
        ]);
        let tier = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
        assert_eq!(for_driver(&parameters), Ok(tier));
        let odd = format!("{PREFIX}snapshoter-secret-name");
        let parameters = BTreeMap::from([(odd.clone(), String::new())]);
        assert_eq!(for_driver(&parameters), Err(ParameterError::Unknown(odd)));
    }
}
