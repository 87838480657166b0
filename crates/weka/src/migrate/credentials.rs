//! Who we are to the API of the cluster: from a file, from the environment, never from the command line. No error shows a value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;
use stowage_host::PathError;

use crate::secret::{Credentials, SecretError};

/// The keys of the secret, and the variables that stand in for them; `weka` itself knows the first three.
const VARIABLES: [(&str, &str); 6] = [
    ("username", "WEKA_USERNAME"),
    ("password", "WEKA_PASSWORD"),
    ("organization", "WEKA_ORG"),
    ("endpoints", "WEKA_ENDPOINTS"),
    ("scheme", "WEKA_SCHEME"),
    ("caCertificate", "WEKA_CA_CERTIFICATE"),
];

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file cannot be read.
    #[error("the Secret of --secret-file cannot be read")]
    File(#[from] PathError),
    /// The file is something else.
    #[error("`{}` is not a Secret: use a file with what `kubectl get secret NAME -o yaml` prints", .0.display())]
    NoSecret(PathBuf),
    /// Something is in neither.
    #[error(
        "the API of the Weka cluster needs `{key}`: set the variable {variable}, or add the key to the Secret of --secret-file{}",
        if *.key == "endpoints" { ", or name a backend with --endpoint-address" } else { "" }
    )]
    Missing {
        /// The key of the secret.
        key: &'static str,
        /// The variable.
        variable: &'static str,
    },
    /// Something is wrong.
    #[error("{0}")]
    Invalid(String),
}

/// The secret: what the file says, then the environment, then the address on the command line.
pub(super) fn read(
    file: Option<&Path>,
    environment: &dyn Fn(&str) -> Option<String>,
    endpoint_address: Option<&str>,
) -> Result<BTreeMap<String, String>, CredentialsError> {
    let mut secret = file.map_or_else(|| Ok(BTreeMap::new()), from_file)?;
    let mut add = |key: &str, value: Option<String>| {
        let is_given = secret.get(key).is_some_and(|it| !it.trim().is_empty());
        if let Some(value) = value.filter(|value| !is_given && !value.is_empty()) {
            secret.insert(key.to_owned(), value);
        }
    };
    for (key, variable) in VARIABLES {
        add(key, environment(variable));
    }
    add("endpoints", endpoint_address.map(str::to_owned));
    match Credentials::parse(&secret) {
        Ok(_) => Ok(secret),
        Err(SecretError::Missing(key)) => Err(missing(key)),
        Err(error) => Err(CredentialsError::Invalid(error.to_string())),
    }
}

fn missing(key: &'static str) -> CredentialsError {
    let variable = VARIABLES.iter().find(|(known, _)| *known == key);
    let variable = variable.map_or("", |(_, variable)| variable);
    CredentialsError::Missing { key, variable }
}

fn from_file(file: &Path) -> Result<BTreeMap<String, String>, CredentialsError> {
    let text = std::fs::read_to_string(file).map_err(PathError::at("read", file))?;
    // What the parser says may quote the file.
    let wrong = || CredentialsError::NoSecret(file.to_owned());
    let secret: Value = serde_saphyr::from_str(&text).map_err(|_| wrong())?;
    let secret: Secret = serde_json::from_value(secret).map_err(|_| wrong())?;
    let mut found = secret.string_data.unwrap_or_default();
    for (key, value) in secret.data.unwrap_or_default() {
        let value = String::from_utf8(value.0).map_err(|_| wrong())?;
        found.entry(key).or_insert(value);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "
apiVersion: v1
kind: Secret
metadata: {name: csi-wekafs-api-secret}
type: Opaque
data:
  username: YWRtaW4=
  password: aHVudGVyMg==
  endpoints: MTAuMC4wLjE6MTQwMDA=
";

    fn from(
        file: Option<&str>,
        variables: &[(&str, &str)],
        address: Option<&str>,
    ) -> Result<BTreeMap<String, String>, CredentialsError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        if let Some(text) = file {
            std::fs::write(&path, text).unwrap();
        }
        let look = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        read(file.map(|_| path.as_path()), &look, address)
    }

    #[test]
    fn the_file_comes_first_and_the_command_line_last() {
        let variables = [
            ("WEKA_USERNAME", "other"),
            ("WEKA_ORG", "tenant"),
            ("WEKA_ENDPOINTS", "10.0.0.2"),
        ];
        let secret = from(Some(SECRET), &variables, Some("10.0.0.3:14000")).unwrap();
        assert_eq!(secret["username"], "admin");
        assert_eq!(secret["organization"], "tenant");
        assert_eq!(secret["endpoints"], "10.0.0.1:14000");
        let login = [("WEKA_USERNAME", "admin"), ("WEKA_PASSWORD", "x")];
        let secret = from(None, &login, Some("10.0.0.3:14000")).unwrap();
        assert_eq!(secret["endpoints"], "10.0.0.3:14000");
        let json = r#"{"apiVersion":"v1","kind":"Secret","stringData":{"username":"a","password":"b","endpoints":"c"}}"#;
        assert_eq!(from(Some(json), &[], None).unwrap()["endpoints"], "c");
    }

    #[test]
    fn what_is_missing_is_named_with_its_variable() {
        let all = [
            ("WEKA_USERNAME", "u"),
            ("WEKA_PASSWORD", "p"),
            ("WEKA_ENDPOINTS", "e"),
        ];
        assert!(from(None, &all, None).is_ok());
        for (left_out, _) in all {
            let rest: Vec<_> = all
                .into_iter()
                .filter(|(name, _)| *name != left_out)
                .collect();
            let error = from(None, &rest, None).unwrap_err().to_string();
            assert!(
                error.contains(left_out) && error.contains("--secret-file"),
                "{error}"
            );
        }
        let error = from(None, &all[..2], None).unwrap_err().to_string();
        assert!(error.contains("--endpoint-address"), "{error}");
    }

    #[test]
    fn no_error_shows_what_is_in_the_file() {
        for text in [
            "password: hunter2",
            "hunter2",
            "kind: Secret\napiVersion: v1\ndata: {password: hunter2!}",
            "- hunter2",
        ] {
            let error = from(Some(text), &[], None).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(
                shown.contains("Secret") && !shown.contains("hunter2"),
                "{shown}"
            );
        }
    }
}
