//! Parameters of storage classes.

use std::collections::BTreeMap;

/// The class whose arrays a volume may be on.
const CLASS: &str = "VSCStorageClassName";

/// Further parameters of the array's call that creates a volume, as JSON.
const OPTIONS: &str = "volumeOptions";

/// What sidecars add for information.
const FROM_SIDECARS: &str = "csi.storage.k8s.io/";

/// What a storage class says about its volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The VSCStorageClass; without it the default.
    pub class: Option<String>,
    /// Further parameters of the array's call that creates a volume.
    pub options: BTreeMap<String, String>,
}

/// What is wrong with a parameter.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// Nobody knows it.
    #[error("`{0}` is not a parameter of this driver: use `{CLASS}` and `{OPTIONS}`")]
    Unknown(String),
    /// Options are not an object with texts in it.
    #[error(
        r#"`{OPTIONS}` must be a JSON object with texts as values, such as {{"crypt": "YES"}}: {0}"#
    )]
    Options(String),
}

impl TryFrom<&BTreeMap<String, String>> for Parameters {
    type Error = ParameterError;

    fn try_from(given: &BTreeMap<String, String>) -> Result<Self, ParameterError> {
        let mut parameters = Self::default();
        for (name, value) in given {
            match name.as_str() {
                CLASS => parameters.class = Some(value.clone()).filter(|it| !it.is_empty()),
                OPTIONS if value.trim().is_empty() => {}
                OPTIONS => {
                    let options = serde_json::from_str(value);
                    parameters.options =
                        options.map_err(|error| ParameterError::Options(error.to_string()))?;
                }
                other if other.starts_with(FROM_SIDECARS) => {}
                other => return Err(ParameterError::Unknown(other.to_owned())),
            }
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<Parameters, ParameterError> {
        let given = given.iter();
        let given: BTreeMap<String, String> = given
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Parameters::try_from(&given)
    }

    #[test]
    fn a_class_options_and_what_sidecars_add_are_read_and_nothing_else() {
        let read_all = read(&[
            (CLASS, "gold"),
            (OPTIONS, r#"{"crypt": "YES"}"#),
            ("csi.storage.k8s.io/pvc/name", "data"),
        ]);
        let read_all = read_all.unwrap();
        assert_eq!(read_all.class.as_deref(), Some("gold"));
        assert_eq!(read_all.options["crypt"], "YES");
        assert_eq!(
            read(&[(CLASS, ""), (OPTIONS, " ")]),
            Ok(Parameters::default())
        );
        let unknown = read(&[("poolid", "pool-1")]).unwrap_err().to_string();
        assert!(unknown.contains("`poolid`"), "{unknown}");
        for wrong in ["[]", "{", r#"{"crypt": true}"#] {
            let error = read(&[(OPTIONS, wrong)]).unwrap_err().to_string();
            assert!(error.contains("must be a JSON object"), "{error}");
        }
    }
}
