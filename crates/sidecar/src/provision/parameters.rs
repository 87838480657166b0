//! The parameters of a storage class, read once: what is for the driver, and what is for us.

use std::collections::BTreeMap;

use stowage_kubernetes::secret_template::{
    self, IncompleteReference, PREFIX, SecretTemplate, UnknownParameter,
};

use super::templates::SecretTemplates;

const FS_TYPE: &str = "csi.storage.k8s.io/fstype";
/// The secret for everything that has none of its own.
const DEFAULT_SECRET: &str = "";

/// Old keys without a prefix. They stay among the driver's parameters, as they always did.
const OLD_SECRETS: [(&str, &str); 4] = [
    ("provisioner-", "csiProvisionerSecret"),
    ("controller-publish-", "csiControllerPublishSecret"),
    ("node-stage-", "csiNodeStageSecret"),
    ("node-publish-", "csiNodePublishSecret"),
];

/// Whose secrets there are, in the words of the keys.
const SECRETS: [&str; 8] = [
    DEFAULT_SECRET,
    "provisioner-",
    "controller-publish-",
    "node-stage-",
    "node-publish-",
    "controller-expand-",
    "node-expand-",
    "controller-modify-",
];

/// What the parameters of a class say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) for_driver: BTreeMap<String, String>,
    /// `None`: the class names none.
    pub(crate) fs_type: Option<String>,
    pub(crate) secrets: SecretTemplates,
}

/// What is wrong with the parameters of a class. The class must be made again: its parameters cannot be changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParameterError {
    #[error(transparent)]
    Unknown(#[from] UnknownParameter),
    #[error("parameters `{0}` and `{1}` set the same thing: keep one of them")]
    Twice(String, String),
    #[error(transparent)]
    Incomplete(#[from] IncompleteReference),
}

impl Parameters {
    pub(crate) fn read(parameters: &BTreeMap<String, String>) -> Result<Self, ParameterError> {
        let for_driver = secret_template::for_driver(parameters, &SECRETS, &[FS_TYPE])?;
        Ok(Self {
            for_driver,
            fs_type: fs_type(parameters)?,
            secrets: secrets(parameters)?,
        })
    }
}

/// The old key is written in any case, and stays among the driver's parameters.
fn fs_type(parameters: &BTreeMap<String, String>) -> Result<Option<String>, ParameterError> {
    let mut found: Option<(&String, &String)> = None;
    for (key, value) in parameters {
        if key != FS_TYPE && !key.eq_ignore_ascii_case("fstype") {
            continue;
        }
        if let Some((first, _)) = found {
            return Err(ParameterError::Twice(first.clone(), key.clone()));
        }
        found = Some((key, value));
    }
    Ok(found.map(|(_, value)| value.clone()))
}

fn secrets(parameters: &BTreeMap<String, String>) -> Result<SecretTemplates, ParameterError> {
    let of = |whose: &str| secret(parameters, whose);
    let default = of(DEFAULT_SECRET)?;
    let or_default = |own: Option<SecretTemplate>| own.or_else(|| default.clone());
    Ok(SecretTemplates {
        provisioner: or_default(of("provisioner-")?),
        controller_publish: or_default(of("controller-publish-")?),
        node_stage: or_default(of("node-stage-")?),
        node_publish: or_default(of("node-publish-")?),
        controller_expand: or_default(of("controller-expand-")?),
        node_expand: or_default(of("node-expand-")?),
        controller_modify: or_default(of("controller-modify-")?),
    })
}

fn secret(
    parameters: &BTreeMap<String, String>,
    whose: &str,
) -> Result<Option<SecretTemplate>, ParameterError> {
    let new = SecretTemplate::of(parameters, whose)?;
    let Some((_, old)) = OLD_SECRETS.iter().find(|(name, _)| *name == whose) else {
        return Ok(new);
    };
    let old_name = format!("{old}Name");
    let old_namespace = format!("{old}Namespace");
    let old = SecretTemplate::under(parameters, old_name.clone(), old_namespace)?;
    match (&new, &old) {
        (Some(_), Some(_)) => Err(ParameterError::Twice(
            format!("{PREFIX}{whose}secret-name"),
            old_name,
        )),
        _ => Ok(new.or(old)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Parameters, ParameterError> {
        let parameters = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Parameters::read(&parameters)
    }

    #[test]
    fn what_is_for_us_does_not_reach_the_driver() {
        let parameters = read(&[
            ("tier", "gold"),
            ("csi.storage.k8s.io/fstype", "xfs"),
            ("csi.storage.k8s.io/provisioner-secret-name", "maker"),
            ("csi.storage.k8s.io/provisioner-secret-namespace", "storage"),
        ])
        .unwrap();
        assert_eq!(
            parameters.for_driver,
            BTreeMap::from([("tier".to_owned(), "gold".to_owned())])
        );
        assert_eq!(parameters.fs_type.as_deref(), Some("xfs"));
        assert_eq!(parameters.secrets.provisioner.unwrap().name, "maker");
        assert_eq!(parameters.secrets.node_stage, None);
    }

    #[test]
    fn one_secret_can_serve_all_and_each_can_have_its_own() {
        let parameters = read(&[
            ("csi.storage.k8s.io/secret-name", "all"),
            ("csi.storage.k8s.io/secret-namespace", "storage"),
            ("csi.storage.k8s.io/node-stage-secret-name", "stage"),
            ("csi.storage.k8s.io/node-stage-secret-namespace", "storage"),
        ])
        .unwrap();
        assert_eq!(parameters.secrets.provisioner.unwrap().name, "all");
        assert_eq!(parameters.secrets.controller_modify.unwrap().name, "all");
        assert_eq!(parameters.secrets.node_stage.unwrap().name, "stage");
    }

    #[test]
    fn old_keys_count_and_stay_with_the_driver() {
        let parameters = read(&[
            ("FsType", "ext4"),
            ("csiNodePublishSecretName", "old"),
            ("csiNodePublishSecretNamespace", "storage"),
        ])
        .unwrap();
        assert_eq!(parameters.fs_type.as_deref(), Some("ext4"));
        assert_eq!(parameters.secrets.node_publish.unwrap().name, "old");
        assert_eq!(parameters.for_driver.len(), 3);
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        for (pairs, expected) in [
            (
                vec![("csi.storage.k8s.io/fstyp", "xfs")],
                "parameter `csi.storage.k8s.io/fstyp` is unknown",
            ),
            (
                vec![("csi.storage.k8s.io/fstype", "xfs"), ("fsType", "xfs")],
                "set the same thing",
            ),
            (
                vec![("csi.storage.k8s.io/secret-name", "all")],
                "parameter `csi.storage.k8s.io/secret-name` needs parameter `csi.storage.k8s.io/secret-namespace`",
            ),
            (
                vec![
                    ("csi.storage.k8s.io/node-expand-secret-name", ""),
                    ("csi.storage.k8s.io/node-expand-secret-namespace", "storage"),
                ],
                "neither may be empty",
            ),
            (
                vec![
                    ("csi.storage.k8s.io/provisioner-secret-name", "a"),
                    ("csi.storage.k8s.io/provisioner-secret-namespace", "b"),
                    ("csiProvisionerSecretName", "a"),
                    ("csiProvisionerSecretNamespace", "b"),
                ],
                "keep one of them",
            ),
        ] {
            let error = read(&pairs).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
