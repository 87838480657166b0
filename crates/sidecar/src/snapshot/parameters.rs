//! The parameters of a snapshot class: what is for the driver, and the secret with which snapshots are looked at.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;
use stowage_kubernetes::secret_template::{
    self, IncompleteReference, SecretTemplate, TemplateError, UnknownParameter,
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
    #[error(transparent)]
    Unknown(#[from] UnknownParameter),
    #[error(transparent)]
    Incomplete(#[from] IncompleteReference),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// What the driver is given.
pub(super) fn for_driver(
    parameters: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ParameterError> {
    Ok(secret_template::for_driver(parameters, &SECRETS, &[])?)
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
    Ok(Some(template.resolve(value, value)?))
}

#[cfg(test)]
mod tests {
    use stowage_kubernetes::secret_template::PREFIX;

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
        assert_eq!(for_driver(&parameters), Err(UnknownParameter(odd).into()));
    }
}
